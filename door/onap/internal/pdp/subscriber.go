package pdp

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// typeSubscriber is the type of policies that name the roles of subscribers.
const typeSubscriber = "onap.policies.optimization.service.SubscriberPolicy"

// The advice of a subscriber policy.
const (
	adviceSubscriber = onap + "optimization:advice:subscriber"
	adviceRole       = adviceSubscriber + ":role"
	adviceStatus     = adviceSubscriber + ":status"
)

// translateOptimization is translateMatchable, and adds the names and the advice
// of a subscriber policy.
func translateOptimization(ctx context.Context, p *tosca.Entity, t Types) (translated, error) {
	out, err := translateMatchable(ctx, p, t)
	if typ, _ := p.Type(); err != nil || typ != typeSubscriber {
		return out, err
	}
	properties := p.Properties().Get("subscriberProperties")
	if properties == nil {
		return out, errors.New("the property subscriberProperties is missing")
	}
	var names policy.AnyOf
	advice := policy.Obligation{ID: adviceSubscriber, On: policy.Permit}
	for _, part := range []struct {
		property string
		add      func(text string)
	}{
		{"subscriberName", func(text string) {
			m := matchString(text, "")
			m.Bag = &policy.Designator{Category: policy.CategorySubject, ID: attributeSubscriber, Type: value.String}
			names = append(names, policy.AllOf{m})
		}},
		{"subscriberRole", func(text string) { advice.Assignments = append(advice.Assignments, adviceText(adviceRole, text)) }},
		{"provStatus", func(text string) { advice.Assignments = append(advice.Assignments, adviceText(adviceStatus, text)) }},
	} {
		list := items(properties, part.property)
		if len(list) == 0 {
			return out, fmt.Errorf("the property subscriberProperties.%s is missing or empty", part.property)
		}
		for i := range list {
			if k := list[i].Kind; k == tosca.List || k == tosca.Map || k == tosca.Null {
				return out, fmt.Errorf("property subscriberProperties.%s: expected strings", part.property)
			}
			part.add(list[i].Text)
		}
	}
	made := out.element.(*policy.Policy)
	made.Target = append(made.Target, names)
	made.Advice = []policy.Obligation{advice}
	return out, nil
}

// adviceText returns an argument of advice with a text.
func adviceText(id, text string) policy.Assignment {
	return policy.Assignment{ID: id, Category: policy.CategorySubject, Expression: literal(value.NewString(text))}
}
