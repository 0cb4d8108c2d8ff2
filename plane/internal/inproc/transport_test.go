package inproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"
)

func client(server *Server, as user.Info) *http.Client {
	return &http.Client{Transport: Transport{Server: func() *Server { return server }, User: as}}
}

func TestResponseCarriesStatusHeaderAndBody(t *testing.T) {
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Saw", r.RequestURI)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "not sent")
		fmt.Fprintf(w, "%s %s", r.Method, body)
	}))
	defer server.Close()
	resp, err := client(server, nil).Post("https://plane/a?b=c", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusTeapot || string(body) != "POST hello" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	if resp.Header.Get("X-Saw") != "/a?b=c" || resp.Header.Get("X-Late") != "" {
		t.Errorf("got header %v", resp.Header)
	}
}

func TestBodiesStreamBothWays(t *testing.T) {
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "echo %s\n", lines.Text())
		}
	}))
	defer server.Close()
	send, sent := io.Pipe()
	resp, err := client(server, nil).Post("https://plane/", "", send)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	received := bufio.NewReader(resp.Body)
	for _, word := range []string{"one", "two"} {
		fmt.Fprintln(sent, word)
		if line, err := received.ReadString('\n'); err != nil || line != "echo "+word+"\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	sent.Close()
	if _, err := received.ReadByte(); err != io.EOF {
		t.Errorf("got %v at the end, want EOF", err)
	}
}

func TestHandlerEndsWithTheClient(t *testing.T) {
	for name, leave := range map[string]func(cancel func(), body io.Closer, server *Server){
		"context cancelled": func(cancel func(), _ io.Closer, _ *Server) { cancel() },
		"body closed":       func(_ func(), body io.Closer, _ *Server) { body.Close() },
		"server closed":     func(_ func(), _ io.Closer, server *Server) { server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusOK)
				<-r.Context().Done()
				_, err := w.Write([]byte("too late"))
				ended <- err
			}))
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", "https://plane/", nil)
			resp, err := client(server, nil).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			leave(cancel, resp.Body, server)
			if err := <-ended; err == nil {
				t.Error("the handler could still write")
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
				t.Error("the client could still read")
			}
		})
	}
}

func TestCancelledRequestFailsEvenIfTheHandlerAnswers(t *testing.T) {
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "https://plane/", nil)
	if _, err := server.RoundTrip(req, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestAbortBeforeTheHeaderFailsTheRequest(t *testing.T) {
	server := NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	if _, err := client(server, nil).Get("https://plane/"); err == nil {
		t.Error("an aborted request was answered")
	}
}

func TestAbortedHandlerBreaksTheBody(t *testing.T) {
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	resp, err := client(server, nil).Get("https://plane/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if string(body) != "half" || err != io.ErrUnexpectedEOF {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestWriterWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chunk := strings.Repeat("x", maxBuffered/4)
		written := 0
		server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 40 {
				n, _ := io.WriteString(w, chunk)
				written += n
			}
		}))
		defer server.Close()
		resp, err := client(server, nil).Get("https://plane/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		synctest.Wait()
		if written != maxBuffered {
			t.Errorf("%d bytes were written before anything was read, want %d", written, maxBuffered)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if n != int64(40*len(chunk)) || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

func TestUserIsTheTransportsUnlessTheRequestBringsCredentials(t *testing.T) {
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if as, ok := UserFrom(r.Context()); ok {
			fmt.Fprint(w, as.GetName())
		}
	}))
	defer server.Close()
	for _, c := range []struct{ authorization, want string }{{"", "me"}, {"Bearer secret", ""}} {
		req, _ := http.NewRequest("GET", "https://plane/", nil)
		if c.authorization != "" {
			req.Header.Set("Authorization", c.authorization)
		}
		resp, err := client(server, &user.DefaultInfo{Name: "me"}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != c.want {
			t.Errorf("with Authorization %q: got user %q, want %q", c.authorization, got, c.want)
		}
	}
}

func TestClosedServerRefuses(t *testing.T) {
	server := NewServer(http.NotFoundHandler())
	server.Close()
	if _, err := client(server, nil).Get("https://plane/"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}
