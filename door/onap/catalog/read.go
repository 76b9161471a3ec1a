package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/onap/tosca"
)

// read returns the world of a store.
func (c *Catalog) read(ctx context.Context, s *ostiary.Store) (*World, error) {
	d := newWorld().draft(c.Now())
	for section, kind := range entityKinds {
		err := documents(ctx, s, kind, func(doc ostiary.Document) error {
			e, err := readEntity(tosca.Section(section), doc.Body)
			if err != nil {
				return err
			}
			return d.place(e)
		})
		if err != nil {
			return nil, err
		}
	}
	err := documents(ctx, s, kindGroup, func(doc ostiary.Document) error {
		g := &Group{}
		d.groups.Set(doc.Key, g)
		return json.Unmarshal(doc.Body, g)
	})
	if err != nil {
		return nil, err
	}
	err = documents(ctx, s, kindAudit, func(doc ostiary.Document) error {
		r := &AuditRecord{}
		err := json.Unmarshal(doc.Body, r)
		d.audit.Set(r.ID, r)
		d.lastAudit = max(d.lastAudit, r.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &d.World, c.History.read(ctx, s)
}

// documents calls f for each document of a kind.
func documents(ctx context.Context, s *ostiary.Store, kind string, f func(ostiary.Document) error) error {
	for i := range shards {
		list, err := s.DocumentsBy(ctx, kind, strconv.Itoa(i))
		if err != nil {
			return err
		}
		for _, doc := range list {
			if err := f(doc); err != nil {
				return fmt.Errorf("read document %s: %w", doc, err)
			}
		}
	}
	return nil
}

// readEntity reads the document of an entity.
func readEntity(s tosca.Section, body []byte) (*tosca.Entity, error) {
	v, err := tosca.ParseJSON(body)
	if err != nil {
		return nil, err
	}
	return &tosca.Entity{Section: s, Name: v.Get("name").Scalar(), Version: v.Get("version").Scalar(), Body: v}, nil
}
