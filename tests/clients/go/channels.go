package main

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Single messages are fetched, given back, acknowledged.
func get(s *scene) result {
	queue := s.queue(s.name)
	fetch := func(autoAck bool) (amqp.Delivery, bool) {
		delivery, found, err := s.channel.Get(queue, autoAck)
		check(err)
		return delivery, found
	}
	s.publish("", queue, "one")
	s.publish("", queue, "two")
	first, _ := fetch(false)
	check(first.Nack(false, true))
	again, _ := fetch(false)
	check(again.Ack(false))
	second, _ := fetch(true)
	_, found := fetch(true)
	s.publish("", queue, "three")
	purged := must(s.channel.QueuePurge(queue, false))
	must(s.channel.QueueDelete(queue, false, false, false))
	return result{
		"first": []any{string(first.Body), first.MessageCount}, "again": []any{string(again.Body), again.Redelivered},
		"second": string(second.Body), "empty": !found, "purged": purged,
	}
}

func transactions(s *scene) result {
	queue := s.queue(s.name)
	check(s.channel.Tx())
	s.publish("", queue, "rolled back")
	check(s.channel.TxRollback())
	s.publish("", queue, "committed")
	check(s.channel.TxCommit())
	message, _, err := s.channel.Get(queue, false)
	check(err)
	check(message.Ack(false))
	check(s.channel.TxCommit())
	left := must(s.channel.QueueDelete(queue, false, false, false))
	return result{"received": string(message.Body), "left": left}
}

// A consumer is told that its queue is gone.
func cancelled(s *scene) result {
	queue := s.queue(s.name)
	must(s.channel.Consume(queue, "consumer", true, false, false, false, nil))
	told := s.channel.NotifyCancel(make(chan string, 1))
	must(must(s.connection.Channel()).QueueDelete(queue, false, false, false))
	select {
	case tag := <-told:
		return result{"cancelled": tag == "consumer"}
	case <-time.After(patience):
		return result{"cancelled": false}
	}
}

// A message for an exchange that is not there closes the channel, some time after it was published.
func closed(s *scene) result {
	told := s.channel.NotifyClose(make(chan *amqp.Error, 1))
	s.publish(s.name+"-gone", "", "lost")
	reason := <-told
	return result{"closed": []any{reason.Code, strings.ReplaceAll(reason.Reason, s.name, "NAME")}}
}
