package queue

import (
	"context"
	"fmt"
	"testing"
)

type bkey struct{ a, b, c string }

func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		for _, flows := range []bool{false, true} {
			keys := make([]bkey, 2*n)
			for i := range keys {
				keys[i] = bkey{"", fmt.Sprintf("ns-%d", i%1000), fmt.Sprintf("name-%d", i)}
			}
			b.Run(fmt.Sprint(n, flows), func(b *testing.B) {
				c := Config[bkey]{}
				if flows {
					c.Flow = func(k bkey) string { return k.b }
				}
				q := New(c)
				cause := Cause{Source: "For", Kind: "Pod", Object: "x/y", Verb: "added", Version: "12"}
				for _, k := range keys[:n] {
					q.Add(k, Fresh, cause)
				}
				ctx := context.Background()
				i := n
				b.ReportAllocs()
				for b.Loop() {
					q.Add(keys[i], Fresh, cause)
					if i++; i == len(keys) {
						i = 0
					}
					it, _ := q.Get(ctx)
					q.Done(it.Key)
				}
			})
		}
	}
}
