// Package literal reads and prints single values of XACML as XML and as JSON, as
// policies, requests and responses contain them. Its main functions are [ReadXML]
// and [ReadJSON]. It reads no other element or member of these texts.
package literal
