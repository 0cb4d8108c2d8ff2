package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A running plane leaves a record: a folder of its own below the user's cache folder. It holds plane.json, the
// plane's kubeconfig unless another place was asked for, and kubectl's cache. The folder's name begins with the time of its start, so the
// last name in order is the plane started last. The folder goes when the plane stops; one that a killed process left
// behind is known by its server, which no longer answers.

// recordFile is the name of the record within its folder.
const recordFile = "plane.json"

// record is the content of plane.json.
type record struct {
	Address    string `json:"address"`
	Kubeconfig string `json:"kubeconfig"`
	// Debug says where the operators tell what they do; nil without operators.
	Debug *debugRecord `json:"debug,omitempty"`

	dir string
}

// kubectlCache is where kubectl keeps what it discovered of this plane.
func (r record) kubectlCache() string { return filepath.Join(r.dir, "kubectl") }

// planesDir is the folder of all records.
func planesDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the records of running planes: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(cache, "setpoint", "planes"), nil
}

// newRecordDir makes the folder of a plane that is about to start, and removes those of planes that are gone.
func newRecordDir(now time.Time) (string, error) {
	planes, err := planesDir()
	if err != nil {
		return "", err
	}
	records, err := readRecords(planes)
	if err != nil {
		return "", err
	}
	for _, r := range records {
		if !answers(r.Address) {
			if err := os.RemoveAll(r.dir); err != nil {
				return "", fmt.Errorf("removing what a plane that is gone left behind: %w", err)
			}
		}
	}
	if err := removeUnborn(planes, now); err != nil {
		return "", err
	}
	dir := filepath.Join(planes, fmt.Sprintf("%020d-%d", now.UnixNano(), os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder for this plane's record: %w", err)
	}
	return dir, nil
}

// startTime is more than a plane ever takes from making its folder to its record.
const startTime = 10 * time.Minute

// removeUnborn removes the folders of planes that were killed before they had a record.
func removeUnborn(planes string, now time.Time) error {
	entries, err := os.ReadDir(planes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the records of running planes: %w", err)
	}
	for _, e := range entries {
		began, _, _ := strings.Cut(e.Name(), "-")
		nanos, err := strconv.ParseInt(began, 10, 64)
		if err != nil || now.Sub(time.Unix(0, nanos)) < startTime {
			continue
		}
		dir := filepath.Join(planes, e.Name())
		if _, err := os.Stat(filepath.Join(dir, recordFile)); errors.Is(err, os.ErrNotExist) {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("removing what a start that was killed left behind: %w", err)
			}
		}
	}
	return nil
}

// write makes r visible to other commands.
func (r record) write() error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.dir, recordFile), data)
}

// readRecords returns the records below planes, the latest first.
func readRecords(planes string) ([]record, error) {
	entries, err := os.ReadDir(planes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the records of running planes: %w", err)
	}
	var records []record
	for _, e := range entries {
		r := record{dir: filepath.Join(planes, e.Name())}
		data, err := os.ReadFile(filepath.Join(r.dir, recordFile))
		if errors.Is(err, os.ErrNotExist) {
			continue // about to start, or just gone
		}
		if err != nil {
			return nil, fmt.Errorf("reading the record of a plane: %w", err)
		}
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("reading the record of a plane in %s: %w; remove that folder", r.dir, err)
		}
		records = append(records, r)
	}
	slices.Reverse(records)
	return records, nil
}

// allRecords returns the records of all planes, the latest first; some may be gone.
func allRecords() ([]record, error) {
	planes, err := planesDir()
	if err != nil {
		return nil, err
	}
	return readRecords(planes)
}

// lastPlane returns the record of the plane started last that still answers.
func lastPlane() (record, error) {
	records, err := allRecords()
	if err != nil {
		return record{}, err
	}
	for _, r := range records {
		if answers(r.Address) {
			return r, nil
		}
	}
	return record{}, errors.New("no plane is running; start one with 'setpoint up', or name another cluster with --kubeconfig or KUBECONFIG")
}

// answers reports whether something listens at a plane's address.
func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// writeFile replaces a file as a whole, readable by its owner only.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
