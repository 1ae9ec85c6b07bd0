package webhook

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// An authorisation as Adyen's documentation of the signature shows it.
const (
	adyenKey       = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenSignature = "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="
	adyenItem      = `{"NotificationRequestItem":{"additionalData":{"hmacSignature":"` +
		adyenSignature + `"},"amount":{"value":1130,"currency":"EUR"},` +
		`"pspReference":"7914073381342284","eventCode":"AUTHORISATION",` +
		`"merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704",` +
		`"success":"true"}}`
)

func TestAdyen_EachItemHasToBeRight(t *testing.T) {
	v := must(NewAdyen(SignedConfig{Secrets: []string{adyenKey}}))
	body := func(items ...string) string {
		return `{"live":"false","notificationItems":[` + strings.Join(items, ",") + `]}`
	}
	change := func(old, with string) string {
		if !strings.Contains(adyenItem, old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(adyenItem, old, with, 1)
	}
	for text, want := range map[string]Kind{
		body(adyenItem):            0,
		body(adyenItem, adyenItem): 0,
		// The same joined text, written in another way: it would be another key.
		body(change(`"success":"true"`, `"success":true`)):                         Malformed,
		body(change(`1130`, `"1130"`)):                                             Malformed,
		body(change(`1130`, `1130.0`)):                                             Malformed,
		body(change(`"pspReference":"79140`, `"pspReference":"7914:0`)):            Malformed,
		body(change(`"pspReference"`, `"originalReference":"a:b","pspReference"`)): Malformed,
		body(change(`"eventCode"`, `"reason":"x","eventCode"`)):                    0,         // it is not signed
		`{"a":[` + strings.Repeat("0,", 10_000) + `0]}`:                            Malformed, // too many values
		body():                       Missing,
		`{"live":"false"}`:           Missing,
		`{"notificationItems":null}`: Missing,
		`{"notificationItems":[1]}`:  Malformed,
		`{"notificationItems":[{}]}`: Malformed,
		`[]`:                         Malformed,
		``:                           Malformed,
		`{"notificationItems":[`:     Malformed,
		body(adyenItem) + "x":        Malformed,
		body(adyenItem, `{"NotificationRequestItem":{}}`):    Missing,
		body(adyenItem, change("1130", "1131")):              Mismatch,
		body(change("EUR", "USD")):                           Mismatch,
		body(change(`"true"`, `"false"`)):                    Mismatch,
		body(change("7914073381342284", "7914073381342285")): Mismatch,
		body(change(adyenSignature, adyenSignature[:20])):    Malformed,
		body(change(adyenSignature, "")):                     Missing,
		body(change(`"`+adyenSignature+`"`, "1")):            Missing,
		body(change(`"EUR"`, `["EUR"]`)):                     Malformed,
		strings.Repeat(`{"notificationItems":[`, 100):        Malformed,
		// What a reader of the body would find is not what was signed.
		body(change(`"pspReference"`, `"pspReference":"1","pspReference"`)): Malformed,
		body(change(`"pspReference"`, `"pspReference":"1","PSPReference"`)): Mismatch,
	} {
		wantKind(t, text, v.Verify(request(time.Time{}, text)), want)
	}
	// The vector of github.com/adyen/adyen-go-api-library, which has an original reference.
	const item = `{"NotificationRequestItem":{"additionalData":{"hmacSignature":` +
		`"ipnxGCaUZ4l8TUW75a71/ghd2Fe5ffvX0pV4TLTntIc="},"amount":{"currency":"EUR",` +
		`"value":1000},"eventCode":"EVENT","merchantAccountCode":"merchantAccount",` +
		`"merchantReference":"reference","originalReference":"originalReference",` +
		`"paymentMethod":"VISA","pspReference":"pspReference","reason":"reason",` +
		`"success":"true"}}`
	other := must(NewAdyen(SignedConfig{Secrets: []string{adyenKey,
		"DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"}}))
	wantKind(t, "their vector", other.Verify(request(time.Time{}, body(item, adyenItem))), 0)
	many := strings.Repeat(adyenItem+",", 1000) + adyenItem
	r := request(time.Time{}, body(many))
	wantKind(t, "1001 items", v.Verify(r), Malformed)
}

func TestTwilio_TheURLIsSignedAndItsPortMayBeThereOrNot(t *testing.T) {
	// The vectors of Twilio's libraries.
	v := must(newTwilio([]string{"12345"}, 5))
	for _, tt := range []struct {
		url, signature string
		want           Kind
	}{
		{"https://mycompany.com/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", 0},
		{"https://mycompany.com:1234/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", 0},
		{"https://mycompany.com/myapp.php?foo=1&bar=2", "kvajT1Ptam85bY51eRf/AJRuM3w=", 0},
		{"http://mycompany.com/myapp.php?foo=1&bar=2", "0ZXoZLH/DfblKGATFgpif+LLRf4=", 0},
		{"http://mycompany.com:1234/myapp.php?foo=1&bar=2", "Zmvh+3yNM1Phv2jhDCwEM3q5ebU=", 0},
		{"https://mycompany.com/myapp.php?bar=2&foo=1", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", Mismatch},
		{"http://mycompany.com/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", Mismatch},
		{"https://mycompany.com/myapp.php", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", Mismatch},
		{"https://other.com/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", Mismatch},
	} {
		r := signedMessages()["twilio"].request()
		r.URL = tt.url
		r.Header.Set("X-Twilio-Signature", tt.signature)
		wantKind(t, tt.url, v.Verify(r), tt.want)
	}
}

func TestTwilio_TheBodyIsThatOfItsSum(t *testing.T) {
	s := signedMessages()["twilio json"]
	for old, tt := range map[string]struct {
		with string
		want Kind
	}{
		"?foo":       {"?Foo", Mismatch},
		"0a1f":       {"0a1e", Mismatch},
		"6620":       {"66", Malformed},
		"&bar":       {"&bodySHA256=00&bar", Doubled},
		"bodySHA256": {"bodysha256", Mismatch},
	} {
		r := s.request()
		r.URL = strings.Replace(r.URL, old, tt.with, 1)
		wantKind(t, old, s.verifier.Verify(r), tt.want)
	}
	r := signedMessages()["twilio"].request()
	r.Raw = []byte("a=%zz")
	wantKind(t, "no form", s.verifier.Verify(r), Malformed)
	r.Raw = []byte(strings.Repeat("a=b&", 1001))
	wantKind(t, "too many parameters", s.verifier.Verify(r), Malformed)
}

// The signed text of Twilio's vector, signed with openssl dgst -sha256 -hmac 12345.
func TestTwilio_ASharedKeyMaySignBySHA256(t *testing.T) {
	s := signedMessages()["twilio"]
	const settings = "X-Twilio-Webhooks-Signature-Settings"
	const sha256 = "033hgUJA9M/hXIZsYjwkerEP/DBm35nEri5FhCYjA5s="
	for name, tt := range map[string]struct {
		settings, signature string
		want                Kind
	}{
		"SHA-256":           {"key=k1,algorithm=HMAC_SHA256", sha256, 0},
		"SHA-1":             {"key=k1,algorithm=HMAC_SHA1", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", 0},
		"SHA-1 for SHA-256": {"algorithm=HMAC_SHA256", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", Malformed},
		"SHA-256 for SHA-1": {"algorithm=HMAC_SHA1", sha256, Malformed},
		"another":           {"key=k1,algorithm=NONE", sha256, Malformed},
		"empty":             {" ", sha256, Missing},
	} {
		r := s.request()
		r.Header.Set(settings, tt.settings)
		r.Header.Set("X-Twilio-Signature", tt.signature)
		wantKind(t, name, s.verifier.Verify(r), tt.want)
	}
	r := s.request()
	r.Header[settings] = []string{"algorithm=HMAC_SHA1", "algorithm=HMAC_SHA1"}
	wantKind(t, "doubled", s.verifier.Verify(r), Doubled)
}

// A name with several values is signed once for each different value, sorted.
func TestTwilio_AFormIsSortedAndEachValueCountsOnce(t *testing.T) {
	got, err := twilioForm("B=2&a=x&B=10&B=2&A=&C+D=%C3%BC")
	if want := "AB10B2C Düax"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestHMAC_WhatIsSignedIsATemplate(t *testing.T) {
	// PayPal's text to sign, made with printf and openssl dgst -sha256 -hmac KEY -binary | base64
	cfg := HMACConfig{
		Secrets: []string{"a-secret-of-a-partner-0123456789"}, Header: "PAYPAL-TRANSMISSION-SIG",
		Encoding: "base64", TimestampHeader: "paypal-transmission-time", TimestampFormat: "rfc3339",
		Signed: "{header:paypal-transmission-id}|{timestamp}|1JE4291016473214C|{crc32}",
	}
	v := must(NewHMAC(cfg))
	now := time.Date(2016, 2, 18, 20, 1, 35, 0, time.UTC)
	r := request(now, `{"id":"WH-1"}`,
		"Paypal-Transmission-Sig", "rnhx9ATZBU0wLrDFeugoYatB1APnDjoZ8lqlb5b3/J4=",
		"Paypal-Transmission-Id", "69cd13f0-d67a-11e5-baa3-778b53f4ae55",
		"Paypal-Transmission-Time", "2016-02-18T20:01:35Z")
	wantKind(t, "right", v.Verify(r), 0)
	r.Now = now.Add(301 * time.Second)
	wantKind(t, "late", v.Verify(r), Expired)
	r.Now = now
	r.Header.Set("Paypal-Transmission-Id", "69cd13f0-d67a-11e5-baa3-778b53f4ae56")
	wantKind(t, "another id", v.Verify(r), Mismatch)
	r.Header.Del("Paypal-Transmission-Id")
	wantKind(t, "no id", v.Verify(r), Missing)
}

func TestHMAC_EachPieceOfTheRequestCanBeSigned(t *testing.T) {
	ps := must(parseParts("{method} {url} {path} {query} {header:x-a} {{x} {sha256} {crc32}" +
		" {body}"))
	r := request(time.Time{}, "", "X-A", "b")
	r.URL = "https://h:8443/a%20b?z=1&a=2"
	texts, err := ps.fill(r, nil, "")
	got := strings.Join(texts, "")
	// sha256 and crc32 of nothing
	const want = "POST https://h:8443/a%20b?z=1&a=2 /a%20b z=1&a=2 b {x} e3b0c44298fc1c149afbf4c8" +
		"996fb92427ae41e4649b934ca495991b7852b855 0 "
	if err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	for text, needs := range map[string]Needs{
		"{body}": NeedsRaw, "{method}{sha256}": NeedsRaw, "{path}": NeedsURL, "x": 0,
	} {
		if got := must(parseParts(text)).needs(); got != needs {
			t.Errorf("%s needs %d, want %d", text, got, needs)
		}
	}
}

func TestHMAC_IsOverTheWireOrTheDecodedBody(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte("Hi There")); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	// RFC 4231, test case 1
	r := request(time.Time{}, zipped.String(), "X-Sig",
		"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
	r.Content = []byte("Hi There")
	cfg := HMACConfig{Secrets: []string{strings.Repeat("\x0b", 20)}, Header: "X-Sig"}
	wantKind(t, "wire", must(NewHMAC(cfg)).Verify(r), Mismatch)
	cfg.SignOver = "decoded"
	v := must(NewHMAC(cfg))
	wantKind(t, "decoded", v.Verify(r), 0)
	if NeedsOf(v) != NeedsContent {
		t.Errorf("it needs %d", NeedsOf(v))
	}
}

func TestConstructorsRefuse(t *testing.T) {
	long := "0123456789abcdef"
	with := func(change func(*HMACConfig)) error {
		cfg := HMACConfig{Secrets: []string{long}, Header: "X-Sig"}
		change(&cfg)
		_, err := NewHMAC(cfg)
		return err
	}
	stripe := func(secrets ...string) error {
		_, err := NewStripe(SignedConfig{Secrets: secrets})
		return err
	}
	standard := func(secret string) error {
		_, err := NewStandard(StandardConfig{Secrets: []string{secret}})
		return err
	}
	second := func(_ any, err error) error { return err }
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"right":         {with(func(*HMACConfig) {}), ""},
		"short":         {stripe("fifteen-letters"), "has 15 bytes; it needs at least 16"},
		"short, why":    {stripe("fifteen-letters"), "could be found by trying"},
		"one is short":  {stripe(long, "short"), "at least 16"},
		"none":          {stripe(), "no secret"},
		"empty":         {stripe(""), "has 0 bytes"},
		"many":          {stripe(strings.Fields(strings.Repeat(long+" ", 17))...), "at most 16"},
		"no base64":     {standard("whsec_!"), "no base64"},
		"base64, short": {standard("whsec_MDEyMzQ1Njc4OWFiY2RlZg=="), "at least 24"},
		"asymmetric":    {standard("whpk_MDEy"), "asymmetric"},
		"adyen text":    {second(NewAdyen(SignedConfig{Secrets: []string{"key"}})), "no hex"},
		"adyen short": {second(NewAdyen(SignedConfig{Secrets: []string{"00ff"}})),
			"at least 32"},
		"twilio short": {second(NewTwilio(SignedConfig{Secrets: []string{"12345"}})),
			"at least 16"},
		"tolerance": {with(func(c *HMACConfig) { c.Tolerance = -1 }), "negative"},
		"header":    {with(func(c *HMACConfig) { c.Header = "" }), "no header"},
		"algorithm": {with(func(c *HMACConfig) { c.Algorithm = "md5" }), `"md5" is none of`},
		"encoding":  {with(func(c *HMACConfig) { c.Encoding = "raw" }), "none of hex"},
		"secret encoding": {with(func(c *HMACConfig) { c.SecretEncoding = "raw" }),
			"none of text"},
		"sign over": {with(func(c *HMACConfig) { c.SignOver = "x" }), "neither wire nor"},
		"no body":   {with(func(c *HMACConfig) { c.Signed = "{method}" }), "leaves out the body"},
		"a brace":   {with(func(c *HMACConfig) { c.Signed = "{body" }), "without its }"},
		"a piece":   {with(func(c *HMACConfig) { c.Signed = "{bod}" }), "{bod}"},
		"no name":   {with(func(c *HMACConfig) { c.Signed = "{body}{header:}" }), "{header:}"},
		"no header": {with(func(c *HMACConfig) { c.Signed = "{body}{header:host}" }), "Host"},
		"a name":    {with(func(c *HMACConfig) { c.Signed = "{body:x}" }), "{body:x}"},
		"unsigned": {with(func(c *HMACConfig) { c.TimestampHeader = "X-T" }),
			"anybody could renew it"},
		"signed as a header": {with(func(c *HMACConfig) {
			c.TimestampHeader, c.Signed = "x-t", "{header:X-T}{body}"
		}), ""},
		"nowhere":  {with(func(c *HMACConfig) { c.Signed = "{timestamp}{body}" }), "nothing says"},
		"no field": {with(func(c *HMACConfig) { c.TimestampField = "t" }), "needs one too"},
		"one field": {with(func(c *HMACConfig) { c.Field, c.TimestampField = "t", "t" }),
			"the same field"},
		"prefix": {with(func(c *HMACConfig) { c.Field, c.Prefix = "t", "x" }),
			"field and a prefix"},
		"format": {with(func(c *HMACConfig) { c.TimestampFormat = "days" }),
			"none of seconds"},
		"bearer":         {second(NewBearer()), "no bearer token"},
		"bearer, empty":  {second(NewBearer("a", "")), "token is empty"},
		"bearer, blank":  {second(NewBearer("a ")), "ends with a blank"},
		"basic, name":    {second(NewBasic("", "p")), "user name"},
		"basic, colon":   {second(NewBasic("a:b", "p")), "colon"},
		"basic, nothing": {second(NewBasic("a")), "no password"},
		"basic, empty":   {second(NewBasic("a", "")), "password is empty"},
		"names":          {second(NewClientNames()), "no name"},
		"a name, empty":  {second(NewClientNames("")), "name is empty"},
		"networks":       {second(NewPeers()), "no network"},
		"no network":     {second(NewPeers(netip.Prefix{})), "not valid"},
	} {
		switch {
		case tt.want == "" && tt.err != nil, tt.want != "" && tt.err == nil:
			t.Errorf("%s: %v, want %q", name, tt.err, tt.want)
		case tt.err != nil && !strings.Contains(tt.err.Error(), tt.want):
			t.Errorf("%s: %v, want %q", name, tt.err, tt.want)
		}
	}
}

func TestBasic_AcceptsItsLoginsOnly(t *testing.T) {
	// RFC 7617, sections 2 and 2.1
	v := must(NewBasic("test", "123£", "old"))
	aladdin := must(NewBasic("Aladdin", "open sesame"))
	wantKind(t, "Aladdin", aladdin.Verify(request(time.Time{}, "", "Authorization",
		"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")), 0)
	for value, want := range map[string]Kind{
		"Basic dGVzdDoxMjPCow==": 0, "basic dGVzdDoxMjPCow==": 0,
		"Basic dGVzdDpvbGQ=":     0, // test:old
		"Basic dGVzdDoxMjM=":     Mismatch,
		"Basic dGVzdA==":         Mismatch,
		"Basic QWxhZGRpbjpvbGQ=": Mismatch,
		"Basic !":                Malformed, "Bearer dGVzdDpvbGQ=": Malformed, "Basic": Malformed,
	} {
		wantKind(t, value, v.Verify(request(time.Time{}, "", "Authorization", value)), want)
	}
	wantKind(t, "none", v.Verify(request(time.Time{}, "")), Missing)
	wantKind(t, "two", v.Verify(request(time.Time{}, "", "Authorization", "Basic dGVzdDpvbGQ=",
		"Authorization", "Basic dGVzdDpvbGQ=")), Doubled)
}

func TestClientNames_AreThoseOfACertificate(t *testing.T) {
	v := must(NewClientNames("rcs-1.plant.example", "spiffe://plant/rcs"))
	for want, names := range map[Kind][]string{
		0: {"other", "RCS-1.plant.example"}, Missing: nil, Mismatch: {"rcs-1.plant.example.evil"},
	} {
		wantKind(t, "names", v.Verify(&Request{ClientNames: names}), want)
	}
}

func TestPeers_AreInANetwork(t *testing.T) {
	v := must(NewPeers(netip.MustParsePrefix("192.0.2.77/24"),
		netip.MustParsePrefix("2001:db8::/32")))
	for peer, want := range map[string]Kind{
		"192.0.2.1": 0, "::ffff:192.0.2.1": 0, "2001:db8::1": 0, "2001:db8::1%eth0": 0,
		"192.0.3.1": Mismatch, "2001:db9::1": Mismatch,
	} {
		wantKind(t, peer, v.Verify(&Request{Peer: netip.MustParseAddr(peer)}), want)
	}
	wantKind(t, "unknown", v.Verify(&Request{}), Missing)
}

func TestCombinations(t *testing.T) {
	bearer := must(NewBearer("a"))
	peers := must(NewPeers(netip.MustParsePrefix("192.0.2.0/24")))
	s := signedMessages()["github"]
	right := s.request()
	right.Peer = netip.MustParseAddr("192.0.2.1")
	right.Header.Set("Authorization", "Bearer a")
	stranger := &Request{}
	wrong := request(time.Time{}, "", "Authorization", "Bearer b")
	for name, tt := range map[string]struct {
		v    Verifier
		r    *Request
		want Kind
	}{
		"all":                 {AllOf(s.verifier, peers, bearer), right, 0},
		"all, one is wrong":   {AllOf(s.verifier, peers, must(NewBearer("b"))), right, Mismatch},
		"all, a stranger":     {AllOf(s.verifier, peers, bearer), stranger, Missing},
		"all of nothing":      {AllOf(), right, Missing},
		"any":                 {AnyOf(must(NewBearer("b")), peers), right, 0},
		"any, a stranger":     {AnyOf(bearer, peers), stranger, Missing},
		"any, one is shown":   {AnyOf(bearer, peers), wrong, Mismatch},
		"any, shown the last": {AnyOf(peers, bearer), wrong, Mismatch},
		"any of nothing":      {AnyOf(), right, Missing},
	} {
		wantKind(t, name, tt.v.Verify(tt.r), tt.want)
	}
	if n := NeedsOf(AllOf(s.verifier, peers)); n != NeedsRaw|NeedsPeer {
		t.Errorf("it needs %d", n)
	}
	if c := ChallengeOf(AnyOf(bearer, must(NewBasic("u", "p")), bearer, peers)); c !=
		`Bearer, Basic realm="once", charset="UTF-8"` {
		t.Errorf("it challenges with %s", c)
	}
	early, late := Split(AllOf(s.verifier, peers, bearer))
	if NeedsOf(early) != NeedsPeer || NeedsOf(late) != NeedsRaw {
		t.Errorf("split into %d and %d", NeedsOf(early), NeedsOf(late))
	}
	if early, late := Split(bearer); early != Verifier(bearer) || late != nil {
		t.Error("a token waits for the body")
	}
	any := AnyOf(s.verifier, bearer)
	if early, late := Split(any); early != nil || late != any {
		t.Error("one of several was split")
	}
}
