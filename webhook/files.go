package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// fileInterval is the time between two looks at the files. Reading two small
// files each second costs less than what can go wrong with notifications, which
// see neither all renames nor what happens on network file systems.
const fileInterval = time.Second

// Files is a certificate from two PEM files, such as a Secret that cert-manager
// made, mounted into the Pod. The files may change at any time, in place, by a
// rename or by a symbolic link that leads elsewhere: within a second or two new
// connections get the new certificate.
type Files struct {
	certFile, keyFile string
	log               *slog.Logger
	current           current

	// What was read last, in the goroutine that reads.
	cert, key []byte
	problem   string
}

// NewFiles returns the certificate (with its chain) and the key in these files,
// which need not be there yet. A nil logger discards.
func NewFiles(certFile, keyFile string, log *slog.Logger) *Files {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Files{certFile: certFile, keyFile: keyFile, log: log.With("file", certFile)}
}

// Run implements Certificates.
func (f *Files) Run(ctx context.Context) error {
	ticker := time.NewTicker(fileInterval)
	defer ticker.Stop()
	for {
		f.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Certificate implements Certificates.
func (f *Files) Certificate() (*tls.Certificate, error) { return f.current.get() }

// Check implements Certificates.
func (f *Files) Check() (string, error) { return f.current.check() }

// look reads the files and takes over what changed. A certificate and a key that
// do not fit, as between two renames, are looked at again at the next time, and
// the last ones that did fit are served meanwhile.
func (f *Files) look() {
	cert, errCert := os.ReadFile(f.certFile)
	key, errKey := os.ReadFile(f.keyFile)
	err := errors.Join(errCert, errKey)
	if err == nil && bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		f.current.note(nil)
		f.problem = ""
		return
	}
	var loaded tls.Certificate
	if err == nil {
		if loaded, err = tls.X509KeyPair(cert, key); err != nil {
			err = fmt.Errorf("certificate %s and key %s: %w", f.certFile, f.keyFile, err)
		}
	}
	if err != nil {
		f.current.note(err)
		if f.problem != err.Error() {
			f.problem = err.Error()
			f.log.Warn("webhook certificate not loaded", "error", err)
		}
		return
	}
	f.cert, f.key, f.problem = cert, key, ""
	f.current.set(&loaded)
	f.log.Info("webhook certificate loaded", "expires", loaded.Leaf.NotAfter)
}
