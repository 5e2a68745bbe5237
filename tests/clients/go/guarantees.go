package main

import (
	"errors"
	"reflect"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func confirms(s *scene) result {
	queue := s.queue(s.name)
	check(s.channel.Confirm(false))
	returns := s.channel.NotifyReturn(make(chan amqp.Return, 1))
	pending := []*amqp.DeferredConfirmation{}
	publish := func(key string, mandatory bool) *amqp.DeferredConfirmation {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("message")}
		return must(s.channel.PublishWithDeferredConfirm("", key, mandatory, false, message))
	}
	for number := 0; number < 100; number++ {
		pending = append(pending, publish(queue, true))
	}
	confirmed := 0
	for _, confirmation := range pending {
		if confirmation.Wait() {
			confirmed++
		}
	}
	unroutable := publish(s.name+"-nowhere", true).Wait()
	returned := <-returns
	full := must(s.channel.QueueDeclare(s.name+"-full", false, false, true, false,
		amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})).Name
	taken, refused := publish(full, false).Wait(), publish(full, false).Wait()
	messages := must(s.channel.QueueDelete(queue, false, false, false))
	return result{
		"confirmed": confirmed, "messages": messages, "full": []bool{taken, refused}, "unroutable confirmed": unroutable,
		"returned": []any{returned.ReplyCode, returned.ReplyText},
	}
}

// The broker closes the channel and says why; the connection stays.
func brokerErrors(s *scene) result {
	refusal := func(provoke func(*amqp.Channel) error) []any {
		channel := must(s.connection.Channel())
		var refused *amqp.Error
		if !errors.As(provoke(channel), &refused) {
			panic("not refused")
		}
		return []any{refused.Code, strings.ReplaceAll(refused.Reason, s.name, "NAME")}
	}
	s.queue(s.name)
	missing := refusal(func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclarePassive(s.name+"-gone", false, false, false, false, nil)
		return err
	})
	inequivalent := refusal(func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(s.name, true, false, false, false, nil)
		return err
	})
	exchange := refusal(func(channel *amqp.Channel) error {
		return channel.QueueBind(s.name, "", s.name+"-gone", false, nil)
	})
	must(s.channel.QueueDelete(s.name, false, false, false))
	return result{"missing": missing, "inequivalent": inequivalent, "exchange": exchange}
}

// Bodies of no frame, of one and of many.
func bodies(s *scene) result {
	queue := s.queue(s.name)
	sizes := []int{}
	for _, size := range []int{0, 1, 131_064, 131_065, 3_000_000} {
		s.publish("", queue, strings.Repeat("x", size))
	}
	for _, body := range s.texts(queue, 5) {
		sizes = append(sizes, len(body))
	}
	return result{"sizes": sizes}
}

// Everything that a message can carry comes back as it was sent.
func properties(s *scene) result {
	queue := s.queue(s.name)
	sent := amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "identity", DeliveryMode: amqp.Persistent, Priority: 3,
		CorrelationId: "correlation", ReplyTo: "reply", Expiration: "60000", MessageId: "message", Type: "type",
		Timestamp: time.Unix(1_700_000_000, 0), UserId: "guest", AppId: "application", Body: []byte("{}"),
		Headers: amqp.Table{
			"text": "text", "int": int32(-7), "long": int64(1) << 40, "flag": true, "double": 0.5, "octets": []byte{0, 255},
			"time": time.Unix(1_600_000_000, 0), "nothing": nil, "list": []any{int32(1), "two"},
			"table": amqp.Table{"inner": "value"},
		},
	}
	check(s.channel.Publish("", queue, false, false, sent))
	d := next(must(s.channel.Consume(queue, "", true, false, false, false, nil)))
	got := amqp.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId, Type: d.Type,
		Timestamp: d.Timestamp.Local(), UserId: d.UserId, AppId: d.AppId, Body: d.Body, Headers: d.Headers,
	}
	got.Headers["time"] = got.Headers["time"].(time.Time).Local()
	return result{"equal": reflect.DeepEqual(sent, got)}
}

// Idle for several intervals: the client's own watch over the broker's heartbeats does not end the connection.
func heartbeats(s *scene) result {
	connection := must(amqp.DialConfig(s.url, amqp.Config{Heartbeat: 2 * time.Second}))
	defer connection.Close()
	channel := must(connection.Channel())
	queue := must(channel.QueueDeclare("", false, false, true, false, nil)).Name
	time.Sleep(9 * time.Second)
	open := !connection.IsClosed()
	idle := &scene{s.url, connection, channel, s.name}
	idle.publish("", queue, "still there")
	return result{"interval": int(connection.Config.Heartbeat.Seconds()), "open": open, "received": idle.texts(queue, 1)}
}
