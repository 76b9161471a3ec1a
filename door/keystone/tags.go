package keystone

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/identity"
)

// Bounds of the tags of a project.
const (
	tagsMax          = 80
	tagCharactersMax = 255
)

// checkTags validates the tags of a project.
func checkTags(tags []string) error {
	if len(tags) > tagsMax {
		return &statusError{http.StatusBadRequest, "A project has at most 80 tags."}
	}
	for i, t := range tags {
		if t == "" || utf8.RuneCountInString(t) > tagCharactersMax || strings.ContainsAny(t, "/,") || slices.Contains(tags[:i], t) {
			return invalidField("tags", t, "a tag has 1 to 255 characters without / and ',' and occurs once")
		}
	}
	return nil
}

// listTags answers GET /v3/projects/{id}/tags.
func (c *call) listTags() error {
	p, err := c.get(projects, "list_project_tags", c.Params.At(0))
	if err != nil {
		return err
	}
	return c.sendTags(p)
}

func (c *call) sendTags(p *identity.Record) error {
	var o object
	o.texts("tags", tagsOf(p))
	o.links(c.link("projects", p.ID, "tags"))
	return c.write(http.StatusOK, &o)
}

// setTags replaces the tags of the project in the path by what change returns.
func (c *call) setTags(operation string, change func([]string) ([]string, error)) (*identity.Record, error) {
	p, err := c.get(projects, operation, c.Params.At(0))
	if err != nil {
		return nil, err
	}
	return c.id.Update(c.Context(), identity.Project, p.ID, nil, false, func(r *identity.Record) error {
		tags, err := change(tagsOf(r))
		if err == nil {
			err = checkTags(tags)
		}
		r.Members = r.Members.With("tags", tags)
		return err
	})
}

// replaceTags answers PUT /v3/projects/{id}/tags.
func (c *call) replaceTags() error {
	m, err := c.bodyMembers()
	if err != nil {
		return err
	}
	value, _ := m.Get("tags")
	tags := []string{}
	if err := json.Unmarshal(value, &tags); err != nil || tags == nil {
		return invalidField("tags", string(value), "expected a list of texts")
	}
	p, err := c.setTags("update_project_tags", func([]string) ([]string, error) { return tags, nil })
	if err != nil {
		return err
	}
	return c.sendTags(p)
}

// removeTags answers DELETE /v3/projects/{id}/tags.
func (c *call) removeTags() error {
	if _, err := c.setTags("delete_project_tags", func([]string) ([]string, error) { return []string{}, nil }); err != nil {
		return err
	}
	return c.done()
}

// addTag answers PUT /v3/projects/{id}/tags/{tag}.
func (c *call) addTag() error {
	tag := c.Params.At(1)
	_, err := c.setTags("create_project_tag", func(tags []string) ([]string, error) {
		if slices.Contains(tags, tag) {
			return tags, nil
		}
		return append(tags, tag), nil
	})
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", c.link("projects", c.Params.At(0), "tags", tag))
	c.W.WriteHeader(http.StatusCreated)
	return nil
}

func missingTag(tag string) error {
	return &statusError{http.StatusNotFound, "Could not find project tag: " + shorten(tag) + "."}
}

// checkTag answers GET /v3/projects/{id}/tags/{tag}.
func (c *call) checkTag() error {
	p, err := c.get(projects, "get_project_tag", c.Params.At(0))
	if err != nil {
		return err
	}
	if !slices.Contains(tagsOf(p), c.Params.At(1)) {
		return missingTag(c.Params.At(1))
	}
	return c.done()
}

// removeTag answers DELETE /v3/projects/{id}/tags/{tag}.
func (c *call) removeTag() error {
	_, err := c.setTags("delete_project_tag", func(tags []string) ([]string, error) {
		i := slices.Index(tags, c.Params.At(1))
		if i < 0 {
			return nil, missingTag(c.Params.At(1))
		}
		return slices.Delete(tags, i, i+1), nil
	})
	if err != nil {
		return err
	}
	return c.done()
}
