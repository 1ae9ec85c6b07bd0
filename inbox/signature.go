package inbox

import (
	"context"
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	"github.com/oncekit/once/webhook"
)

// Signed returns a Verifier that asks one of package webhook. The part of it that needs no body is
// asked before the body is read, so that strangers can't fill the memory for bodies.
func Signed(v webhook.Verifier) Verifier {
	s := &signature{challenge: webhook.ChallengeOf(v)}
	early, late := webhook.Split(v)
	if early != nil {
		s.early = &stage{early, webhook.NeedsOf(early)}
	}
	if late != nil {
		s.late = &stage{late, webhook.NeedsOf(late)}
	}
	return s
}

// signature is a verifier in two stages, before and after the body was read; nil where there is
// nothing to do.
type signature struct {
	early, late *stage
	challenge   string
}

type stage struct {
	verifier webhook.Verifier
	needs    webhook.Needs
}

// Verify returns the reason of the first stage that isn't satisfied.
func (s *signature) Verify(ctx context.Context, m *Message) error {
	for _, one := range []*stage{s.early, s.late} {
		if one == nil {
			continue
		}
		if err := one.Verify(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// HeaderOnly reports whether the body isn't looked at.
func (s *signature) HeaderOnly() bool { return s.late == nil }

// Challenge returns the schemes by which a sender can prove itself with a header.
func (s *signature) Challenge() string { return s.challenge }

// Verify hands what is needed of the message to the verifier.
func (s *stage) Verify(_ context.Context, m *Message) error {
	r := webhook.Request{Method: m.Method, Header: m.Header, Raw: m.Raw, Now: time.Now()}
	if s.needs&webhook.NeedsContent != 0 {
		content, err := m.Content()
		if err != nil {
			return err
		}
		r.Content = content
	}
	if s.needs&webhook.NeedsURL != 0 {
		r.URL = m.URL()
	}
	if s.needs&webhook.NeedsPeer != 0 {
		r.Peer = peerAddr(m.Peer)
	}
	if s.needs&webhook.NeedsClientNames != 0 {
		r.ClientNames = clientNames(m.TLS)
	}
	return s.verifier.Verify(&r)
}

// peerAddr reads an address with or without a port; the zero Addr if it is none.
func peerAddr(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap()
	}
	a, _ := netip.ParseAddr(s)
	return a.Unmap()
}

// clientNames returns the names in a client's certificate that was verified: its alternative names
// (DNS, email, URI), or its common name if it has none of them.
func clientNames(cs *tls.ConnectionState) []string {
	if cs == nil || len(cs.VerifiedChains) == 0 || len(cs.VerifiedChains[0]) == 0 {
		return nil
	}
	leaf := cs.VerifiedChains[0][0]
	names := slices.Concat(leaf.DNSNames, leaf.EmailAddresses)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	if len(names) == 0 && leaf.Subject.CommonName != "" {
		names = []string{leaf.Subject.CommonName}
	}
	return names
}
