// What users of amqp091-go do first. `clients SCENARIO URL NAME` runs one scenario, with NAME before the names of all
// that it declares, and prints what it saw as one line of JSON.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 30 * time.Second

type result map[string]any

// What a scenario is given: the broker's address, a connection to it, a channel of it, and a name of its own.
type scene struct {
	url        string
	connection *amqp.Connection
	channel    *amqp.Channel
	name       string
}

var scenarios = map[string]func(*scene) result{
	"hello": hello, "work_queues": workQueues, "publish_subscribe": publishSubscribe, "routing": routing,
	"topics": topics, "rpc": rpc, "confirms": confirms, "errors": brokerErrors, "bodies": bodies,
	"properties": properties, "heartbeats": heartbeats, "get": get, "transactions": transactions,
	"cancelled": cancelled, "closed": closed,
}

func main() {
	name, url, unique := os.Args[1], os.Args[2], os.Args[3]
	if name == "recovery" {
		print(recovery(url, unique))
		return
	}
	connection := must(amqp.Dial(url))
	defer connection.Close()
	s := &scene{url, connection, must(connection.Channel()), unique}
	print(scenarios[name](s))
}

func print(value any) {
	fmt.Println(string(must(json.Marshal(value))))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func (s *scene) queue(name string) string {
	return must(s.channel.QueueDeclare(name, false, false, false, false, nil)).Name
}

// A queue that the broker names and that goes with the connection, bound by some keys.
func (s *scene) bound(exchange string, keys ...string) string {
	queue := must(s.channel.QueueDeclare("", false, false, true, false, nil)).Name
	for _, key := range keys {
		check(s.channel.QueueBind(queue, key, exchange, false, nil))
	}
	return queue
}

func (s *scene) publish(exchange, key, body string) {
	check(s.channel.Publish(exchange, key, false, false, amqp.Publishing{ContentType: "text/plain", Body: []byte(body)}))
}

func next(deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case delivery, open := <-deliveries:
		if !open {
			log.Panic("the consumer has ended")
		}
		return delivery
	case <-time.After(patience):
		log.Panic("no delivery came")
	}
	panic("not reached")
}

// The bodies of the next messages of a queue.
func (s *scene) texts(queue string, count int) []string {
	deliveries := must(s.channel.Consume(queue, "", true, false, false, false, nil))
	seen := []string{}
	for len(seen) < count {
		seen = append(seen, string(next(deliveries).Body))
	}
	return seen
}
