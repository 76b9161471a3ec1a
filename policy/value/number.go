package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// IntegerDigitsMax is the bound "integer digits": the number of decimal digits
// that an integer may have. XACML sets no bound, but arithmetic on integers of
// any size would let a request use any amount of time.
const IntegerDigitsMax = 4096

// parseInteger reads an xs:integer: an optional sign and digits.
func parseInteger(text string) (Value, error) {
	digits := strings.TrimLeft(unsigned(text), "0")
	switch {
	case !isDigits(unsigned(text)):
		return Value{}, errors.New("expected digits, with an optional sign")
	case len(digits) > IntegerDigitsMax:
		return Value{}, fmt.Errorf("expected at most %d digits (bound integer digits)", IntegerDigitsMax)
	case digits == "":
		return NewInteger(0), nil
	}
	if text[0] == '-' {
		digits = "-" + digits
	}
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return NewInteger(i), nil
	}
	i, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return Value{}, errors.New("expected digits, with an optional sign")
	}
	return NewBigInteger(i), nil
}

// unsigned returns text without a leading sign.
func unsigned(text string) string {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		return text[1:]
	}
	return text
}

// isDigits reports whether text is one or more ASCII digits.
func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// parseDouble reads an xs:double. A number that is too large is infinite, as
// XML Schema demands.
func parseDouble(text string) (Value, error) {
	switch text {
	case "INF":
		return NewDouble(math.Inf(1)), nil
	case "-INF":
		return NewDouble(math.Inf(-1)), nil
	case "NaN":
		return NewDouble(math.NaN()), nil
	}
	if !isDecimal(text) {
		return Value{}, errors.New("expected a decimal number with an optional exponent, INF, -INF or NaN")
	}
	f, _ := strconv.ParseFloat(text, 64) // only the range can be wrong: then it is infinite
	return NewDouble(f), nil
}

// isDecimal reports whether text has the form of a number of xs:double: a sign,
// digits with a point, and an exponent. strconv accepts more.
func isDecimal(text string) bool {
	mantissa, exponent := unsigned(text), "0"
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		mantissa, exponent = mantissa[:i], unsigned(mantissa[i+1:])
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return isDigits(whole+fraction) && isDigits(exponent)
}

// formatDouble returns the canonical form of XML Schema part 2, section 3.2.5.2,
// for example "1.0E0".
func formatDouble(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "INF"
	case math.IsInf(f, -1):
		return "-INF"
	case math.IsNaN(f):
		return "NaN"
	case f == 0:
		return "0.0E0" // also for -0, which equals 0
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	e, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(e)
}
