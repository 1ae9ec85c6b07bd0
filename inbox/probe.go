package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/oncekit/once/queue"
)

// maxSourceProbes bounds the probes of a source: each may cost a message an evaluation.
const maxSourceProbes = 32

// Probe is a message by which a sender tries whether somebody answers. It has a Text or a When.
type Probe struct {
	// Text is the whole body, without the blanks around it. It is compared before the body is
	// decoded, whatever its content type says.
	Text []byte
	// When is a condition on the decoded message. One that fails is not met: most messages lack
	// what makes one a probe.
	When func(*Message) (bool, error)
	// Reply to it. Default: 200 without a body.
	Reply Reply
}

// probe is a Probe with everything made that doesn't depend on a message.
type probe struct {
	text  []byte
	when  func(*Message) (bool, error)
	reply *reply
}

func newProbes(list []Probe) ([]probe, error) {
	if len(list) > maxSourceProbes {
		return nil, fmt.Errorf("%d probes, at most %d", len(list), maxSourceProbes)
	}
	var out []probe
	for i, p := range list {
		text := trimBlanks(p.Text)
		if (len(text) > 0) == (p.When != nil) {
			return nil, fmt.Errorf("probe %d: %w", i+1,
				errors.New("it needs either a text that is not blank, or a condition"))
		}
		made, err := newReply(p.Reply, queue.Probe, http.StatusOK)
		if err != nil {
			return nil, fmt.Errorf("probe %d: %w", i+1, err)
		}
		out = append(out, probe{text: text, when: p.When, reply: made})
	}
	return out, nil
}

func trimBlanks(b []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(b, []byte(byteOrderMark)), " \t\r\n")
}

// textProbe returns the reply to a body that is the text of a probe; nil: it is none.
func (s *source) textProbe(content []byte) *reply {
	if len(s.probes) == 0 {
		return nil
	}
	text := trimBlanks(content)
	for i := range s.probes {
		if p := &s.probes[i]; p.when == nil && bytes.Equal(p.text, text) {
			return p.reply
		}
	}
	return nil
}

// probe returns the reply to a decoded message that meets the condition of a probe.
func (s *source) probeOf(m *Message) *reply {
	for i := range s.probes {
		p := &s.probes[i]
		if p.when == nil {
			continue
		}
		if met, err := p.when(m); err == nil && met {
			return p.reply
		}
	}
	return nil
}

// probed is the verdict of a probe. It is no event, so it is not worth more than a debug line.
func (in *intake) probed(p *reply) verdict {
	in.rc.log.Debug("probe answered", "source", in.src.Name, "peer", in.msg.Peer)
	return verdict{outcome: queue.Probe, reply: p}
}
