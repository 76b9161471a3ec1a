// Package permifypb holds the messages and services of Permify's API. "make proto"
// generates it from the .proto files in proto/. Only package permify and its
// tools use these types.
package permifypb
