// Members of groups that copy a topic in short transactions, one behind the other: records and offsets together.
//
// Arguments: name=value of bootstrap, input, count (its records), members (of each group), records (at most in a
// transaction), groups: names separated by commas that begin with the group's protocol (classic, consumer), with
// "-static" for members with an instance id. Each group writes to a topic of its own name behind the input's. Prints for
// each group how many transactions its members have committed.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type job struct {
	bootstrap, input        string
	count, members, records int
}

func main() {
	given := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		given[name] = value
	}
	work := job{
		given["bootstrap"], given["input"], number(given["count"]), number(given["members"]), number(given["records"]),
	}
	groups := strings.Split(given["groups"], ",")
	transactions := make([]atomic.Int64, len(groups))
	var running sync.WaitGroup
	for index, group := range groups {
		copied := &atomic.Int64{}
		for member := 0; member < work.members; member++ {
			running.Add(1)
			go func() {
				defer running.Done()
				if err := work.copy(group, member, copied, &transactions[index]); err != nil {
					fmt.Fprintf(os.Stderr, "member %d of %s: %v\n", member, group, err)
					os.Exit(1)
				}
			}()
		}
	}
	running.Wait()
	for index, group := range groups {
		fmt.Println(group, transactions[index].Load())
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func (work job) copy(group string, member int, copied, transactions *atomic.Int64) error {
	name := work.input + "-" + group
	options := []kgo.Opt{
		kgo.SeedBrokers(work.bootstrap),
		kgo.TransactionalID(fmt.Sprintf("%s-%d", name, member)),
		kgo.ConsumerGroup(name),
		kgo.ConsumeTopics(work.input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}
	ctx := context.Background()
	if strings.HasPrefix(group, "consumer") {
		options = append(options, kgo.ServerSideBalancer())
	}
	if strings.HasSuffix(group, "-static") {
		options = append(options, kgo.InstanceID(fmt.Sprintf("member-%d", member)))
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	for copied.Load() < int64(work.count) {
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetched := session.PollRecords(soon, work.records)
		cancel()
		records := fetched.Records()
		if len(records) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		var failed kgo.FirstErrPromise
		for _, record := range records {
			out := &kgo.Record{Topic: name, Partition: record.Partition, Value: record.Value}
			session.Produce(ctx, out, failed.Promise())
		}
		outcome := kgo.TransactionEndTry(failed.Err() == nil)
		committed, err := session.End(ctx, outcome)
		if err != nil {
			return err
		}
		if committed {
			copied.Add(int64(len(records)))
			transactions.Add(1)
		}
	}
	return nil
}
