// Package migrate copies a deployment from the database of OpenStack Keystone into
// an empty [identity.Service]. Its main function is [Run].
//
// All rows are read in one read-only transaction, so they are of one time, also if
// Keystone runs meanwhile. Rows are read as a stream and written in batches, so
// the memory is that of the records, and of the ids of projects and trusts. The package has no
// driver of a database: the caller opens it. It never writes to the database and
// never logs a secret.
package migrate
