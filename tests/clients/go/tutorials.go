package main

import (
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

func hello(s *scene) result {
	queue := s.queue(s.name)
	s.publish("", queue, "Hello World!")
	return result{"received": s.texts(queue, 1)}
}

// The first worker takes one task and ends without an acknowledgement; the second does everything.
func workQueues(s *scene) result {
	must(s.channel.QueueDeclare(s.name, true, false, false, false, nil))
	worker := func() (*amqp.Channel, <-chan amqp.Delivery) {
		channel := must(s.connection.Channel())
		check(channel.Qos(1, 0, false))
		return channel, must(channel.Consume(s.name, "", false, false, false, false, nil))
	}
	first, held := worker()
	for number := 0; number < 6; number++ {
		task := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("task " + strconv.Itoa(number))}
		check(s.channel.Publish("", s.name, false, false, task))
	}
	holding := string(next(held).Body)
	_, second := worker()
	done, redelivered := []string{}, []string{}
	for len(done) < 6 {
		task := next(second)
		done = append(done, string(task.Body))
		if task.Redelivered {
			redelivered = append(redelivered, string(task.Body))
		}
		check(task.Ack(false))
		if len(done) == 5 {
			check(first.Close())
		}
	}
	must(s.channel.QueueDelete(s.name, false, false, false))
	return result{"held": holding, "done": done, "redelivered": redelivered}
}

func publishSubscribe(s *scene) result {
	check(s.channel.ExchangeDeclare(s.name, "fanout", false, true, false, false, nil))
	first, second := s.bound(s.name, ""), s.bound(s.name, "")
	s.publish(s.name, "", "info: one")
	s.publish(s.name, "", "info: two")
	return result{"first": s.texts(first, 2), "second": s.texts(second, 2)}
}

func routing(s *scene) result {
	check(s.channel.ExchangeDeclare(s.name, "direct", false, true, false, false, nil))
	all, errors := s.bound(s.name, "info", "warning", "error"), s.bound(s.name, "error")
	for _, severity := range []string{"info", "error", "debug", "warning"} {
		s.publish(s.name, severity, severity)
	}
	return result{"all": s.texts(all, 3), "errors": s.texts(errors, 1)}
}

func topics(s *scene) result {
	check(s.channel.ExchangeDeclare(s.name, "topic", false, true, false, false, nil))
	all, kernel, critical := s.bound(s.name, "#"), s.bound(s.name, "kern.*"), s.bound(s.name, "*.critical")
	for _, key := range []string{"kern.info", "cron.critical", "kern.critical", "kern", "a.b.critical"} {
		s.publish(s.name, key, key)
	}
	return result{"all": s.texts(all, 5), "kernel": s.texts(kernel, 2), "critical": s.texts(critical, 2)}
}

func fibonacci(n int) int {
	if n < 2 {
		return n
	}
	return fibonacci(n-1) + fibonacci(n-2)
}

func rpc(s *scene) result {
	queue := s.queue(s.name)
	requests := must(s.channel.Consume(queue, "", false, false, false, false, nil))
	server := must(s.connection.Channel())
	go func() {
		for request := range requests {
			number := must(strconv.Atoi(string(request.Body)))
			answer := amqp.Publishing{
				CorrelationId: request.CorrelationId, Body: []byte(strconv.Itoa(fibonacci(number))),
			}
			check(server.Publish("", request.ReplyTo, false, false, answer))
			check(request.Ack(false))
		}
	}()
	call := func(replyTo string) []string {
		client := must(s.connection.Channel())
		if replyTo == "" {
			replyTo = must(client.QueueDeclare("", false, false, true, false, nil)).Name
		}
		replies := must(client.Consume(replyTo, "", true, false, false, false, nil))
		answers := []string{}
		for number := 0; number < 6; number++ {
			request := amqp.Publishing{
				CorrelationId: "call " + strconv.Itoa(number), ReplyTo: replyTo, Body: []byte(strconv.Itoa(number)),
			}
			check(client.Publish("", queue, false, false, request))
			reply := next(replies)
			answers = append(answers, reply.CorrelationId+": "+string(reply.Body))
		}
		return answers
	}
	return result{"queue": call(""), "direct": call("amq.rabbitmq.reply-to")}
}
