package queue

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// take gets the next key, which must be there.
func take(t *testing.T, q *Queue[string]) Item[string] {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("the queue is empty")
	}
	item, err := q.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// workOff gets and finishes keys until none is left, and returns them in order.
func workOff(t *testing.T, q *Queue[string]) []string {
	t.Helper()
	var keys []string
	for q.Len() > 0 {
		item := take(t, q)
		q.Done(item.Key)
		keys = append(keys, item.Key)
	}
	return keys
}

// waitIn starts a Get that waits and returns where its result will be.
func waitIn(ctx context.Context, q *Queue[string]) <-chan string {
	result := make(chan string, 1)
	go func() {
		item, err := q.Get(ctx)
		if err != nil {
			result <- fmt.Sprint("error: ", err)
			return
		}
		result <- item.Key
	}()
	return result
}
