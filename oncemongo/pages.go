package oncemongo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// maxWaiting bounds the waiters of a resource that are counted.
const maxWaiting = 1000

// Tasks returns a page of tasks, those that were created last first. A page may end before its
// limit: a task that moves while pages are read must not be missed, so they are walked by the order
// of creation, and what was looked at says where to go on.
func (s *Store) Tasks(ctx context.Context, q queue.TaskQuery) (queue.TaskPage, error) {
	var page queue.TaskPage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("tasks: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	before, err := cursorOf("tasks", q.Cursor)
	if err != nil {
		return page, err
	}
	f := bson.D{{Key: "gone", Value: bson.D{{Key: "$ne", Value: true}}}}
	if q.Flow != "" {
		f = append(f, bson.E{Key: "flow", Value: q.Flow})
	}
	if q.State != "" {
		f = append(f, bson.E{Key: "state", Value: q.State})
	}
	if before > 0 {
		f = append(f, bson.E{Key: "n", Value: bson.D{{Key: "$lt", Value: before}}})
	}
	found, err := s.find(ctx, tasks, f, bson.D{{Key: "n", Value: -1}}, q.Limit+1,
		bson.D{{Key: "fields", Value: 0}, {Key: "taken", Value: 0}})
	if err != nil {
		return page, asUnavailable(err)
	}
	last := int64(0)
	for i, raw := range found {
		if i == q.Limit {
			page.Next = strconv.FormatInt(last, 36)
			break
		}
		var d taskDoc
		if err := bson.Unmarshal(raw, &d); err != nil {
			return page, fmt.Errorf("read a task: %w: %w", once.ErrCorrupt, err)
		}
		last = d.N
		page.Tasks = append(page.Tasks, queue.Task{Flow: d.Flow, ID: d.Task, State: d.State,
			Version: d.Version, Final: d.Final, CreatedAt: d.CreatedAt.time(),
			SinceAt: d.SinceAt.time(), UpdatedAt: d.UpdatedAt.time(),
			OverdueAt: d.OverdueAt.time()})
	}
	return page, nil
}

// Resources returns a page of resources by kind and name, each with the number of its waiters.
func (s *Store) Resources(ctx context.Context, q queue.ResourceQuery) (queue.ResourcePage, error) {
	var page queue.ResourcePage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("resources: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	f := bson.D{}
	if q.Kind != "" {
		f = append(f, bson.E{Key: "kind", Value: q.Kind})
	}
	if kind, name, ok := strings.Cut(q.Cursor, "/"); ok {
		f = append(f, bson.E{Key: "$or", Value: bson.A{
			bson.D{{Key: "kind", Value: bson.D{{Key: "$gt", Value: kind}}}},
			bson.D{{Key: "kind", Value: kind},
				{Key: "name", Value: bson.D{{Key: "$gt", Value: name}}}},
		}})
	}
	found, err := s.find(ctx, resources, f,
		bson.D{{Key: "kind", Value: 1}, {Key: "name", Value: 1}}, q.Limit+1, nil)
	if err != nil {
		return page, asUnavailable(err)
	}
	for i, raw := range found {
		if i == q.Limit {
			last := page.Resources[i-1]
			page.Next = last.Kind + "/" + last.Name
			break
		}
		var d resourceDoc
		if err := bson.Unmarshal(raw, &d); err != nil {
			return page, fmt.Errorf("read a resource: %w: %w", once.ErrCorrupt, err)
		}
		n, err := collection(s.db, callbacks).CountDocuments(ctx,
			bson.D{{Key: "waits", Value: queue.WaitResource(d.Kind, d.Name)}},
			options.Count().SetLimit(maxWaiting))
		if err != nil {
			return page, asUnavailable(fault(err))
		}
		page.Resources = append(page.Resources,
			queue.ResourceStatus{Resource: d.public(), Waiting: int(n)})
	}
	return page, nil
}
