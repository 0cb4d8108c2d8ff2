package queue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/queue"
)

// A worker's loop. Changes of one key that arrive before it runs are one run, with all their causes.
func Example() {
	q := queue.New(queue.Config[string]{})
	q.Add("shop/cart", queue.Listed, queue.Cause{Source: "For", Verb: "added"})
	q.Add("shop/stock", queue.Listed, queue.Cause{Source: "For", Verb: "added"})
	q.Add("shop/stock", queue.Fresh, queue.Cause{Source: "Owns", Kind: "Pod", Object: "shop/stock-1", Verb: "modified"})

	for range 2 {
		item, err := q.Get(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(item.Key)
		for _, c := range item.Causes {
			fmt.Println("  because", c.Source, c.Kind, c.Object, c.Verb)
		}
		q.Forget(item.Key)                                              // it went well
		q.AddAfter(item.Key, time.Minute, queue.Cause{Source: "After"}) // look again later
		q.Done(item.Key)
	}

	q.ShutDown()
	_, err := q.Get(context.Background())
	fmt.Println(err)
	// Output:
	// shop/stock
	//   because For   added
	//   because Owns Pod shop/stock-1 modified
	// shop/cart
	//   because For   added
	// queue is shut down
}
