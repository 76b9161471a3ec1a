package storagetest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/storage"
)

func documentCases() []testcase {
	return []testcase{
		{"documents/put and remove", "Document returns the newest body, or fails with ErrNoDocument after the document was removed; the rows contain the past.", documentLife},
		{"documents/secondary", "DocumentsBy yields the live documents of a kind that have a secondary key, in order of their keys.", documentsBy},
		{"secrets", "Only the newest ciphertext of a secret is stored, and only until it is removed; it is not in the log, the rows or the documents.", secrets},
		{"documents/bodies", "State.Bodies yields the live documents of a kind in order of their keys, as they were at the head of the state.", documentBodies},
		{"documents/copies", "The caller may change the documents that it passes and receives, without an effect on the driver.", documentCopies},
	}
}

func documentLife(k *kit) {
	l := k.store()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	k.append(l, put("schema", "1", "first", "x"))
	k.append(l, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "schema", Key: "1", Body: big}})
	doc, err := k.Document(k.ctx, l.ID, "schema", "1")
	k.ok(err)
	k.check(bytes.Equal(doc.Body, big) && len(doc.Secondary) == 0, "the document has %d bytes and secondary keys %q", len(doc.Body), doc.Secondary)
	k.verify(l)
	k.append(l, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "schema", Key: "1"}})
	k.append(l, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "schema", Key: "absent"}})
	_, err = k.Document(k.ctx, l.ID, "schema", "1")
	k.is(err, storage.ErrNoDocument)
	_, err = k.Secret(k.ctx, l.ID, "schema", "1")
	k.is(err, storage.ErrNoDocument)
	k.verify(l)
	zero := storage.Revision(0)
	st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{RemovedAfter: &zero})
	k.ok(err)
	defer st.Close()
	var rows []string
	for row, err := range st.Documents {
		k.ok(err)
		rows = append(rows, fmt.Sprintf("%d-%d %d %q", row.Created, row.Removed, row.BodyBytes, row.Secondary))
	}
	k.check(slices.Equal(rows, []string{`1-2 5 ["x"]`, `2-3 1048576 []`}), "the rows are %q", rows)
}

func documentsBy(k *kit) {
	l := k.store()
	by := func(kind, secondary string) (keys []string) {
		for doc, err := range k.DocumentsBy(k.ctx, l.ID, kind, secondary) {
			k.ok(err)
			k.check(string(doc.Body) == "body of "+doc.Key, "document %q has body %q", doc.Key, doc.Body)
			keys = append(keys, doc.Key)
		}
		return keys
	}
	want := func(kind, secondary string, keys ...string) {
		k.Helper()
		have := by(kind, secondary)
		k.check(slices.Equal(have, keys), "documents of %q by %q are %q, want %q", kind, secondary, have, keys)
	}
	p := func(key string, secondary ...string) storage.Change {
		return put("user", key, "body of "+key, secondary...)
	}
	k.append(l, p("c", "x", "x"), p("a", "x", "y"), p("b", "y"), p("b\x00", "y"))
	want("user", "x", "a", "c")
	want("user", "y", "a", "b", "b\x00")
	want("users", "x")
	want("user", "")
	k.append(l, p("a", "z"), p("b"))
	want("user", "x", "c")
	want("user", "y", "b\x00")
	want("user", "z", "a")
	k.append(l, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "user", Key: "c"}}, p("c", "z"),
		storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "user", Key: "a"}})
	want("user", "x")
	want("user", "z", "c")
	for range k.DocumentsBy(k.ctx, l.ID, "user", "z") {
		break
	}
	k.reopen()
	want("user", "z", "c")
}

func documentBodies(k *kit) {
	l := k.store()
	k.append(l, put("user", "c", "3", "x"), put("user", "a", "1"), put("user", "b\x00", "2b"), put("user", "b", "2"), put("users", "d", "other kind"), put("use", "e", "other kind"),
		storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "user", Key: "a", Body: []byte("ciphertext")}})
	k.append(l, put("user", "c", "3 again"), storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "user", Key: "b"}})
	k.reopen()
	st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{})
	k.ok(err)
	k.append(l, put("user", "later", "4"), storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "user", Key: "a"}})
	read := func() (texts []string) {
		for doc, err := range st.Bodies("user") {
			k.ok(err)
			texts = append(texts, doc.Key+"="+string(doc.Body)+fmt.Sprint(doc.Secondary))
			doc.Body = append(doc.Body[:0], "the caller may change the body"...)
		}
		return texts
	}
	for range st.Bodies("user") {
		break
	}
	want := []string{"a=1[]", "b\x00=2b[]", "c=3 again[]"}
	for range 2 {
		have := read()
		k.check(st.Head.Revision == 2 && slices.Equal(have, want), "Bodies at revision %d yields %q, want %q", st.Head.Revision, have, want)
	}
	k.ok(st.Close())
	k.verify(l)
}

func secrets(k *kit) {
	l := k.store()
	secret := func(body string) storage.Change {
		return storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "key", Key: "1", Body: []byte(body), Secondary: []string{"s"}}}
	}
	k.append(l, secret("oldest ciphertext"), put("key", "1", "a document of the same name"))
	k.append(l, secret("older ciphertext"), secret("newest ciphertext"))
	k.reopen()
	doc, err := k.Secret(k.ctx, l.ID, "key", "1")
	k.ok(err)
	k.check(string(doc.Body) == "newest ciphertext" && slices.Equal(doc.Secondary, []string{"s"}), "the secret is %q %q", doc.Body, doc.Secondary)
	for doc, err := range k.DocumentsBy(k.ctx, l.ID, "key", "s") {
		k.Fatalf("DocumentsBy yields secret %v, error %v", doc.Key, err)
	}
	log := k.verify(l)
	for _, e := range log {
		for _, c := range e.Changes {
			k.check(c.Kind != storage.SecretPut || len(c.Document.Body) == 0 && c.Document.Digest != storage.Hash{}, "entry %d of the log contains a ciphertext", e.Revision)
		}
	}
	k.append(l, storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: "key", Key: "1"}})
	_, err = k.Secret(k.ctx, l.ID, "key", "1")
	k.is(err, storage.ErrNoDocument)
	_, err = k.Document(k.ctx, l.ID, "key", "1")
	k.ok(err)
	k.ok(k.Trim(k.ctx, l.ID, 1, l.Head.Revision))
	k.verify(l)
}

func documentCopies(k *kit) {
	l := k.store()
	c := put("schema", "1", "body", "x")
	k.append(l, c)
	c.Document.Body[0], c.Document.Secondary[0] = 'B', "y"
	doc, err := k.Document(k.ctx, l.ID, "schema", "1")
	k.ok(err)
	k.check(string(doc.Body) == "body", "the body changed to %q", doc.Body)
	doc.Body[0] = 'B'
	doc.Body = append(doc.Body[:0], "longer than it was"...)
	doc, err = k.Document(k.ctx, l.ID, "schema", "1")
	k.ok(err)
	k.check(string(doc.Body) == "body", "the body changed to %q", doc.Body)
	k.verify(l)
}
