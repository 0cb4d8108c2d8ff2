package lease

import (
	"strings"
	"testing"
	"time"
)

func TestConfigDefaults(t *testing.T) {
	a, err := Config{Namespace: "default", Name: "x"}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Config{Namespace: "default", Name: "x"}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if a.Duration != 15*time.Second || a.RenewDeadline != 10*time.Second || a.RetryPeriod != 2*time.Second {
		t.Errorf("times %v %v %v, want 15s 10s 2s", a.Duration, a.RenewDeadline, a.RetryPeriod)
	}
	if a.Identity == b.Identity || !strings.Contains(a.Identity, "_") {
		t.Errorf("identities %q and %q must differ", a.Identity, b.Identity)
	}
}

// Regression for kubernetes-sigs/controller-runtime #2873: an election that two
// replicas could win at once is an error, not a deadlock or a panic.
func TestBug2873InvalidElectionIsAnError(t *testing.T) {
	for why, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"renewing for longer than the lease lasts": {func(c *Config) { c.RenewDeadline = 20 * time.Second }, "RenewDeadline 20s must be less than Duration 15s"},
		"renewing for as long as the lease lasts":  {func(c *Config) { c.RenewDeadline = 15 * time.Second }, "RenewDeadline 15s must be less"},
		"trying less often than one must":          {func(c *Config) { c.RetryPeriod = 10 * time.Second }, "RetryPeriod 10s must be more than zero and less than RenewDeadline"},
		"a negative period":                        {func(c *Config) { c.RetryPeriod = -1 }, "RetryPeriod -1ns must be more than zero"},
		"a fraction of a second":                   {func(c *Config) { c.Duration = 15500 * time.Millisecond }, "not a whole, positive number of seconds"},
		"a negative duration":                      {func(c *Config) { c.Duration = -time.Second }, "not a whole, positive number of seconds"},
		"no name":                                  {func(c *Config) { c.Name = "" }, "no Name"},
		"no namespace outside of a Pod":            {func(c *Config) { c.Namespace = "" }, "no Namespace"},
	} {
		c := Config{Namespace: "default", Name: "x"}
		test.change(&c)
		if _, err := c.Complete(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", why, err, test.want)
		}
	}
}
