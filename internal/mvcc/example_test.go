package mvcc_test

import (
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

// A follower reads the changes since the last revision that it has seen, then waits for the next.
func Example() {
	table := mvcc.New[string](mvcc.Options{History: 100})
	set := func(key, value string, expected uint64) error {
		_, err := table.Update(func(tx *mvcc.Txn[string]) error {
			if _, revision, _ := tx.Get(key); revision != expected {
				return errors.New("somebody else was faster")
			}
			tx.Set(key, value)
			return nil
		})
		return err
	}
	seen := table.Revision()
	fmt.Println(set("pod/a", "pending", 0), set("pod/b", "pending", 0), set("pod/a", "running", 1))
	fmt.Println(set("pod/a", "failed", 1))

	<-table.Changed(seen)
	snapshot := table.Snapshot()
	changes, err := snapshot.Changes(seen)
	if err != nil {
		fmt.Println("too old, start again from the snapshot:", err)
		return
	}
	for c := range changes {
		fmt.Printf("%d: %s %q → %q\n", c.Revision, c.Key, c.Old, c.New)
	}
	past, _ := snapshot.At(2)
	for e := range past.Prefix("pod/") {
		fmt.Printf("at 2: %s=%s\n", e.Key, e.Value)
	}
	// Output:
	// <nil> <nil> <nil>
	// somebody else was faster
	// 1: pod/a "" → "pending"
	// 2: pod/b "" → "pending"
	// 3: pod/a "pending" → "running"
	// at 2: pod/a=pending
	// at 2: pod/b=pending
}
