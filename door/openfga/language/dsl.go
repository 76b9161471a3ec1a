package language

import (
	"errors"
	"fmt"
	"strings"

	"github.com/antlr4-go/antlr/v4"
	grammar "github.com/openfga/language/pkg/go/gen"
)

// dslText is a DSL text as the grammar's parser reads it: a whole model, or a
// file of a modular one.
type dslText struct {
	model *model
	// modular is set for a file of a modular model, module is the module's name,
	// and extensions are the types that the file extends.
	modular    bool
	module     string
	extensions map[string]bool
	errs       []error
}

// parseDSL parses a text. Its errors are [*Error], joined if there are several.
func parseDSL(src string) (text *dslText, err error) {
	defer func() {
		if r := recover(); r != nil { // for a malformed text, the generated parser can index out of range
			text, err = nil, &Error{Kind: ErrSyntax, Text: "the text is not a model"}
		}
	}()
	t := &dslText{model: &model{conditions: map[string]*condition{}}, extensions: map[string]bool{}}
	errs := &errorListener{DefaultErrorListener: antlr.NewDefaultErrorListener(), text: t}
	lexer := grammar.NewOpenFGALexer(antlr.NewInputStream(withoutComments(src)))
	lexer.RemoveErrorListeners()
	lexer.AddErrorListener(errs)
	parser := grammar.NewOpenFGAParser(antlr.NewCommonTokenStream(lexer, antlr.TokenDefaultChannel))
	parser.RemoveErrorListeners()
	parser.AddErrorListener(errs)
	tree := parser.Main()
	if len(t.errs) == 0 { // a broken tree lacks parts that the walk needs
		t.main(tree)
	}
	switch len(t.errs) {
	case 0:
		return t, nil
	case 1:
		return nil, t.errs[0]
	}
	return nil, errors.Join(t.errs...)
}

// withoutComments blanks lines that are comments, and cuts comments from the
// ends of lines.
func withoutComments(src string) string {
	lines := strings.Split(src, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "#") {
			line = ""
		}
		line, _, _ = strings.Cut(line, " #")
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// errorListener collects the lexer's and the parser's errors.
type errorListener struct {
	*antlr.DefaultErrorListener
	text *dslText
}

// SyntaxError adds an error. line counts from 1 and column from 0.
func (l *errorListener) SyntaxError(_ antlr.Recognizer, _ any, line, column int, message string, _ antlr.RecognitionException) {
	l.text.fail(line, column+1, message)
}

// syntaxErrorsMax bounds the syntax errors that are reported for a text.
const syntaxErrorsMax = 20

func (t *dslText) fail(line, column int, message string) {
	if len(t.errs) < syntaxErrorsMax {
		t.errs = append(t.errs, &Error{Kind: ErrSyntax, Line: line, Column: column, Text: clip(message)})
	}
}

// failAt adds an error about the part of the text that a context covers.
func (t *dslText) failAt(at antlr.ParserRuleContext, format string, args ...any) {
	t.fail(at.GetStart().GetLine(), at.GetStart().GetColumn()+1, fmt.Sprintf(format, args...))
}

func (t *dslText) main(tree grammar.IMainContext) {
	if h := tree.ModuleHeader(); h != nil {
		t.modular, t.module = true, h.GetModuleName().GetText()
	}
	if h := tree.ModelHeader(); h != nil {
		t.model.version = h.GetSchemaVersion().GetText()
	}
	if list := tree.TypeDefs(); list != nil {
		for _, c := range list.AllTypeDef() {
			t.typeDefinition(c)
		}
	}
	if list := tree.Conditions(); list != nil {
		for _, c := range list.AllCondition() {
			t.condition(c)
		}
	}
}

func (t *dslText) typeDefinition(c grammar.ITypeDefContext) {
	name := c.GetTypeName()
	extends := c.EXTEND() != nil
	if extends && !t.modular {
		t.failAt(name, "extend can only be used in a modular model")
	}
	def := &typeDefinition{name: name.GetText(), relations: map[string]*userset{}, metadata: &metadata{relations: map[string]*relationMetadata{}}}
	if t.modular {
		def.metadata.module = t.module
	}
	for _, r := range c.AllRelationDeclaration() {
		t.relation(def, r, extends)
	}
	if !t.modular && len(def.metadata.relations) == 0 {
		def.metadata = nil
	}
	t.model.types = append(t.model.types, def)
	if extends && t.modular {
		if t.extensions[def.name] {
			t.failAt(name, "'%s' is already extended in file.", def.name)
		}
		t.extensions[def.name] = true
	}
}

func (t *dslText) relation(def *typeDefinition, c grammar.IRelationDeclarationContext, extends bool) {
	name := c.RelationName().GetText()
	if def.relations[name] != nil {
		t.failAt(c.RelationName(), "'%s' is already defined in '%s'", name, def.name)
	}
	meta := &relationMetadata{}
	def.relations[name] = definition(c.RelationDef(), meta)
	def.metadata.relations[name] = meta
	if t.modular && extends {
		meta.module = t.module
	}
}

// definition reads a rewrite whose first operand may be a list of type
// restrictions, which it adds to meta. Its recursion is as deep as the nesting
// of the parentheses.
func definition(c grammar.IRelationDefContext, meta *relationMetadata) *userset {
	switch {
	case c.RelationDefDirectAssignment() != nil:
		for _, r := range c.RelationDefDirectAssignment().AllRelationDefTypeRestriction() {
			meta.subjects = append(meta.subjects, restriction(r))
		}
		return operators(&userset{op: thisUserset}, c.RelationDefPartials())
	case c.RelationRecurse() != nil:
		return operators(parenthesized(c.RelationRecurse(), meta), c.RelationDefPartials())
	}
	return operators(named(c.RelationDefGrouping()), c.RelationDefPartials())
}

func parenthesized(c grammar.IRelationRecurseContext, meta *relationMetadata) *userset {
	if c.RelationDef() != nil {
		return definition(c.RelationDef(), meta)
	}
	return operand(c.RelationRecurseNoDirect())
}

// operand reads a rewrite in parentheses without type restrictions.
func operand(c grammar.IRelationRecurseNoDirectContext) *userset {
	def := c.RelationDefNoDirect()
	switch {
	case def == nil:
		return operand(c.RelationRecurseNoDirect())
	case def.RelationRecurseNoDirect() != nil:
		return operators(operand(def.RelationRecurseNoDirect()), def.RelationDefPartials())
	}
	return operators(named(def.RelationDefGrouping()), def.RelationDefPartials())
}

// operators puts an operand and those that follow it under their operator. The
// grammar admits one operator between parentheses.
func operators(head *userset, c grammar.IRelationDefPartialsContext) *userset {
	if c == nil {
		return head
	}
	children := []*userset{head}
	for _, child := range c.GetChildren() {
		switch x := child.(type) {
		case grammar.IRelationDefGroupingContext:
			children = append(children, named(x))
		case grammar.IRelationRecurseNoDirectContext:
			children = append(children, operand(x))
		}
	}
	switch {
	case len(c.AllOR()) > 0:
		return &userset{op: union, children: children}
	case len(c.AllAND()) > 0:
		return &userset{op: intersection, children: children}
	}
	return &userset{op: difference, children: children[:2]}
}

// named reads "relation" or "relation from tupleset".
func named(c grammar.IRelationDefGroupingContext) *userset {
	rewrite := c.RelationDefRewrite()
	u := &userset{op: computedUserset, computed: &objectRelation{relation: rewrite.GetRewriteComputedusersetName().GetText()}}
	if tupleset := rewrite.GetRewriteTuplesetName(); tupleset != nil {
		u.op, u.tupleset = tupleToUserset, &objectRelation{relation: tupleset.GetText()}
	}
	return u
}

func restriction(c grammar.IRelationDefTypeRestrictionContext) *relationReference {
	base := c.RelationDefTypeRestrictionBase()
	r := &relationReference{typ: base.GetRelationDefTypeRestrictionType().GetText()}
	if relation := base.GetRelationDefTypeRestrictionRelation(); relation != nil {
		r.kind, r.relation = usersetReference, relation.GetText()
	}
	if base.GetRelationDefTypeRestrictionWildcard() != nil {
		r.kind = wildcardReference
	}
	if name := c.ConditionName(); name != nil {
		r.condition = name.GetText()
	} else if inline := c.DOLLAR_EXPRESSION(); inline != nil {
		r.condition = inline.GetText()
	}
	return r
}

func (t *dslText) condition(c grammar.IConditionContext) {
	name := c.ConditionName().GetText()
	if t.model.conditions[name] != nil {
		t.failAt(c.ConditionName(), "condition '%s' is already defined in the model", name)
	}
	out := &condition{
		name: name, parameters: map[string]*parameterType{},
		expression: strings.TrimRight(c.ConditionExpression().GetText(), "\n"),
	}
	if t.modular {
		out.metadata = &conditionMetadata{module: t.module}
	}
	for _, p := range c.AllConditionParameter() {
		parameter := p.ParameterName().GetText()
		if out.parameters[parameter] != nil {
			t.failAt(p.ParameterName(), "parameter '%s' is already defined in the condition '%s'", parameter, name)
		}
		out.parameters[parameter] = parameterTypeOf(p.ParameterType())
	}
	t.model.conditions[name] = out
}

func parameterTypeOf(c grammar.IParameterTypeContext) *parameterType {
	number := func(word string) int32 { return max(parameterKindNamed(parameterKindPrefix+strings.ToUpper(word)), 0) }
	container := c.CONDITION_PARAM_CONTAINER()
	if container == nil {
		return &parameterType{kind: number(c.GetText())}
	}
	p := &parameterType{kind: number(container.GetText())}
	if inner := c.CONDITION_PARAM_TYPE(); inner != nil {
		p.generics = []*parameterType{{kind: number(inner.GetText())}}
	}
	return p
}
