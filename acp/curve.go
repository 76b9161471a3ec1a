package acp

import "math/big"

// onEd25519 says whether 32 bytes are a point of the curve of Ed25519
// (RFC 8032, 5.1.3): of y, little endian with x's sign in the highest bit, there
// is an x with -x² + y² = 1 + d·x²·y². The standard library checks this only
// where it verifies a signature.
func onEd25519(key []byte) bool {
	one := big.NewInt(1)
	p := new(big.Int).Sub(new(big.Int).Lsh(one, 255), big.NewInt(19))
	le := make([]byte, 32)
	for i, b := range key {
		le[31-i] = b
	}
	negative := le[0]&0x80 != 0
	le[0] &= 0x7f
	y := new(big.Int).SetBytes(le)
	if y.Cmp(p) >= 0 {
		return false
	}
	// d = -121665/121666
	d := new(big.Int).ModInverse(big.NewInt(121666), p)
	d.Mul(d, big.NewInt(-121665)).Mod(d, p)
	yy := new(big.Int).Mul(y, y)
	yy.Mod(yy, p)
	u := new(big.Int).Sub(yy, one)
	v := new(big.Int).Mul(d, yy)
	v.Add(v, one).Mod(v, p)
	v.ModInverse(v, p) // d is no square, so v is never 0
	xx := u.Mul(u, v)
	xx.Mod(xx, p)
	x := new(big.Int).ModSqrt(xx, p)
	return x != nil && !(x.Sign() == 0 && negative)
}
