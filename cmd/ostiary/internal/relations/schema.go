package relations

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// schemaJSON is the JSON form of a schema.
type schemaJSON struct {
	ID        string          `json:"id"`
	Namespace string          `json:"namespace,omitempty"`
	Created   string          `json:"created"`
	Revision  uint64          `json:"revision"`
	Current   bool            `json:"current"`
	Language  string          `json:"language,omitempty"`
	Model     json.RawMessage `json:"model,omitempty"`
}

func schemaOf(s client.SchemaInfo) schemaJSON {
	return schemaJSON{ID: s.ID, Namespace: s.Namespace, Created: cli.Stamp(s.Created), Revision: s.Revision}
}

func (a *app) schemaCommand() *cobra.Command {
	return cli.Group("schema", "Write, show and test schemas (OpenFGA models)",
		a.schemaWrite(), a.schemaList(), a.schemaGet(), a.schemaValidate(), a.schemaTest(), a.schemaAssert())
}
