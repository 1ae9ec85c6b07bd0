package oncetest

import (
	"bytes"
	"fmt"

	"github.com/oncekit/once"
)

func identityCases() []Case {
	return []Case{
		{Name: "Identity/H06_CaseAndBlanksDecide", Promise: "keys that differ in case or blanks " +
			"are different ones", run: caseDecides},
		{Name: "Identity/EachByteCounts", Promise: "identities that differ in one byte of their " +
			"32 are different ones", run: eachByteCounts},
		{Name: "Identity/AnyBytes", Promise: "an identity is bytes: NUL, quotes and line ends " +
			"are nothing special", run: anyBytes},
		{Name: "Identity/SharedPublicID", Promise: "identities that share the public id are " +
			"different ones", run: sharedPrefix},
	}
}

func caseDecides(k *kit) {
	keys := []string{"Order-A", "order-a", "Order-A ", " Order-A", "ORDER-A", "Order-Á"}
	ids := make([]once.Identity, len(keys))
	for i, text := range keys {
		key, err := once.KeyOf(text)
		if err != nil {
			k.Fatal(err)
		}
		if ids[i], err = once.Identify(once.NoScope(), key); err != nil {
			k.Fatal(err)
		}
	}
	k.allDiffer(ids)
}

// allDiffer completes each identity with an outcome of its own and reads all of them.
func (k *kit) allDiffer(ids []once.Identity) {
	k.Helper()
	c := claim("")
	for i, id := range ids {
		c = again(c)
		c.Identity = id
		k.done(c, fmt.Sprint(i))
	}
	for i, id := range ids {
		c = again(c)
		c.Identity = id
		k.wantReplay(c, kept(fmt.Sprint(i)))
	}
}

func eachByteCounts(k *kit) {
	base := identity("base")
	ids := []once.Identity{base}
	for i := range base {
		id := base
		id[i] ^= 1 << (i % 8)
		ids = append(ids, id)
	}
	k.allDiffer(ids)
}

func anyBytes(k *kit) {
	fill := func(b string) (id once.Identity) {
		copy(id[:], bytes.Repeat([]byte(b), len(id)))
		return id
	}
	ids := []once.Identity{
		{31: 1}, {0: 1}, fill("\xff"), fill("'"), fill("\""), fill("\n"), fill("\r\n"), fill("{}"),
		fill("\\"), fill("%"), fill("*"), fill(" "), fill("a"), fill("A"), fill("\xff\xfe"),
		fill("\x00\x01"), fill("$"),
	}
	k.allDiffer(ids)
}

func sharedPrefix(k *kit) {
	a, b := identity("a"), identity("b")
	copy(b[:16], a[:16])
	c := b
	c[31]++
	k.allDiffer([]once.Identity{a, b, c})
}
