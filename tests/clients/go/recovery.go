package main

import (
	"bufio"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const sentAfter = 20

// What was received of each queue.
type seen struct {
	mutex  sync.Mutex
	bodies map[string]bool
}

func (s *seen) keep(deliveries <-chan amqp.Delivery) {
	for delivery := range deliveries {
		s.mutex.Lock()
		s.bodies[string(delivery.Body)] = true
		s.mutex.Unlock()
		_ = delivery.Ack(false)
	}
}

func (s *seen) has(body string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bodies[body]
}

// Publishes with confirms, again until confirmed, while the driver disturbs the broker: it begins when it reads
// "ready", and writes a line when the broker serves again. The client reconnects and restores its topology by itself.
func recovery(url, name string) result {
	connection := must(amqp.DialConfig(url, amqp.Config{
		Heartbeat: 2 * time.Second,
		Recovery: &amqp.Recovery{
			ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 200, RetryInterval: 300 * time.Millisecond},
		},
	}))
	defer connection.Close()
	var reopened atomic.Int32
	changes := make(chan *amqp.StateChanged, 16)
	connection.NotifyStateChange(changes)
	go func() {
		for change := range changes {
			if change.To == amqp.StateOpen {
				reopened.Add(1)
			}
		}
	}()
	consuming, publishing := must(connection.Channel()), must(connection.Channel())
	check(consuming.ExchangeDeclare(name, "topic", true, false, false, false, nil))
	durable, exclusive := &seen{bodies: map[string]bool{}}, &seen{bodies: map[string]bool{}}
	must(consuming.QueueDeclare(name, true, false, false, false, nil))
	check(consuming.QueueBind(name, "a.#", name, false, nil))
	transient := name + "-exclusive"
	must(consuming.QueueDeclare(transient, false, false, true, false, nil))
	check(consuming.QueueBind(transient, "#", name, false, nil))
	go durable.keep(must(consuming.Consume(name, "", false, false, false, false, nil)))
	go exclusive.keep(must(consuming.Consume(transient, "", false, false, false, false, nil)))
	check(publishing.Confirm(false))

	var calm atomic.Bool
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		calm.Store(true)
	}()
	confirmed, after := []string{}, 0
	for number := 0; after < sentAfter; number++ {
		body := strconv.Itoa(number)
		isAfter := calm.Load()
		for !published(publishing, name, body) {
			time.Sleep(50 * time.Millisecond)
		}
		confirmed = append(confirmed, body)
		if isAfter {
			after++
		}
		if number == 20 {
			print(result{"event": "ready"})
		}
		time.Sleep(20 * time.Millisecond)
	}
	missing := 0
	deadline := time.Now().Add(patience)
	for _, body := range confirmed {
		for !durable.has(body) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if !durable.has(body) {
			missing++
		}
	}
	last := confirmed[len(confirmed)-1]
	for !exclusive.has(last) && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	must(consuming.QueueDelete(name, false, false, false))
	check(consuming.ExchangeDelete(name, false, false))
	return result{"recovered": reopened.Load() > 0, "after": after, "missing": missing, "exclusive": exclusive.has(last)}
}

func published(channel *amqp.Channel, exchange, body string) bool {
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
	confirmation, err := channel.PublishWithDeferredConfirm(exchange, "a.b", true, false, message)
	if err != nil {
		return false
	}
	select {
	case <-confirmation.Done():
		return confirmation.Acked()
	case <-time.After(3 * time.Second):
		return false
	}
}
