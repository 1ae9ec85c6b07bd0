package load

import (
	"reflect"
	"testing"
	"time"
)

func TestAPlanIsReadFromTheArgumentsThatItWrites(t *testing.T) {
	want := Plan{
		Addr: "127.0.0.1:80", Path: "/orders", Conns: 7, Rate: 12.5, Warm: time.Second,
		Measure: time.Minute, Count: 3, First: 5, Distinct: 9, Events: []string{"a", "b"}, Wave: 2,
		Want: `{"id":`, Status: 201, Keyed: true, Header: "X-Account: 17",
	}
	var got Plan
	if err := NewFlags(&got).Parse(want.Args()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, error %v, want\n%+v", got, err, want)
	}
}
