package outbox

import (
	"strings"
	"testing"
)

func TestQ04_TextsThatABrokerDisconnectsUponAreRefusedBeforeSending(t *testing.T) {
	q := &MQTT{cfg: MQTTConfig{Version: MQTT5}}
	for _, bad := range []string{"a\nb", "a\x00b", "a\x7fb", "a\u009fb", "a\ufffeb", "a\ufdd0b",
		"a\xffb", strings.Repeat("t", 65536)} {
		m := Message{ID: "id", Meta: Meta{Topic: bad}}
		if f := q.check(m); f == nil || f.Class != Permanent {
			t.Errorf("topic %.10q: %v", bad, f)
		}
		m.Meta = Meta{Topic: "t", Header: map[string]string{"name": bad}}
		if f := q.check(m); f == nil || f.Class != Permanent {
			t.Errorf("property %.10q: %v", bad, f)
		}
	}
	for _, topic := range []string{"", "a/+/b", "#", "$SYS/x"} {
		if f := q.check(Message{Meta: Meta{Topic: topic}}); f == nil || f.Class != Permanent {
			t.Errorf("topic %q: %v", topic, f)
		}
	}
	for _, good := range []string{"a/b", "halle/größe", "路/1", "a b", strings.Repeat("t", 65535)} {
		if f := q.check(Message{Meta: Meta{Topic: good}}); f != nil {
			t.Errorf("topic %.10q: %v", good, f)
		}
	}
}
