/*
 * stream_reader - reads streams over AMQP 0-9-1, as fast as they come.  One thread, epoll, libc only.
 *
 *   cc -O2 -Wall -o stream_reader stream_reader.c
 *   ./stream_reader --help
 *
 * Each reader is a connection with one consumer that starts where it is told.  Deliveries are parsed in place: frame
 * heads, the delivery tag and the header x-stream-offset, which must grow by exactly one from message to message.
 * Bodies are counted, not looked at.  The report is one line of JSON; see report() for its keys.
 *
 * With --seek it is one consumer after the other on one channel, each for a single message: how long it takes from
 * basic.consume to the delivery.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
#define NS 1000000000ull
#define M(class, method) ((u32)(class) << 16 | (method))
#define FRAME_BYTES_MAX 131072u
#define BUFFER_BYTES (1u << 20)
#define NONE UINT64_MAX

enum {
    START = M(10, 10), TUNE = M(10, 30), OPEN_OK = M(10, 41), CLOSE = M(10, 50), CLOSE_OK = M(10, 51),
    CHANNEL_OPEN_OK = M(20, 11), CHANNEL_CLOSE = M(20, 40),
    QOS_OK = M(60, 11), CONSUME_OK = M(60, 21), CANCEL = M(60, 30), CANCEL_OK = M(60, 31), DELIVER = M(60, 60),
};

/* ------------------------------------------------------------------ options and state */

static struct {
    const char *host, *user, *password, *vhost, *stream;
    int port, readers, prefetch, ack_every, seek, stall_s;
    char **starts; int starts_count;                     /* where reader i starts: the i-th, in turns */
    u64 messages, until;
    double seconds;
} o = { .host = "127.0.0.1", .port = 5672, .user = "guest", .password = "guest", .vhost = "/", .stream = "al.q.0",
        .readers = 1, .prefetch = 1000, .ack_every = 100, .stall_s = 20, .until = NONE };

typedef struct reader {
    int fd, index, consuming, finished, closed, want_out, unacked, tag;
    u8 *in; size_t in_len, in_cap;
    u8 *out; size_t out_at, out_len, out_cap;
    u64 delivery_tag, body_left, offset;                 /* of the message that is being received */
    u64 messages, bytes, first, last, gaps, missing, backwards, begun, ended;
    int current, late;                                   /* --seek: the delivery is for the consumer that waits */
} reader;

typedef struct { u64 ns, offset; } seek;

static struct {
    int epoll, finished, timed_out, closing, unnumbered, seeks_done;
    u64 now;
    reader *readers;
    seek *seeks;
} g;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list rest; va_start(rest, format);
    fputs("stream_reader: ", stderr); vfprintf(stderr, format, rest); fputc('\n', stderr);
    exit(1);
}

static u64 now_ns(void) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    return g.now = t.tv_sec * NS + t.tv_nsec;
}

/* ------------------------------------------------------------------ octets */

static u16 get16(const u8 *p) { u16 v; memcpy(&v, p, 2); return be16toh(v); }
static u32 get32(const u8 *p) { u32 v; memcpy(&v, p, 4); return be32toh(v); }
static u64 get64(const u8 *p) { u64 v; memcpy(&v, p, 8); return be64toh(v); }

static u8 *room(reader *r, size_t n) {
    if (r->out_len + n > r->out_cap) {
        r->out_cap = 2 * (r->out_len + n);
        if (!(r->out = realloc(r->out, r->out_cap))) die("out of memory");
    }
    r->out_len += n;
    return r->out + r->out_len - n;
}
static void put8(reader *r, u8 v) { *room(r, 1) = v; }
static void put16(reader *r, u16 v) { v = htobe16(v); memcpy(room(r, 2), &v, 2); }
static void put32(reader *r, u32 v) { v = htobe32(v); memcpy(room(r, 4), &v, 4); }
static void put64(reader *r, u64 v) { v = htobe64(v); memcpy(room(r, 8), &v, 8); }
static void put_long(reader *r, const void *s, size_t n) { put32(r, n); memcpy(room(r, n), s, n); }
static void put_short(reader *r, const char *s) { size_t n = strlen(s); put8(r, n); memcpy(room(r, n), s, n); }
static size_t begin(reader *r, int channel, u32 method) {
    put8(r, 1); put16(r, channel); put32(r, 0); put32(r, method);
    return r->out_len - 4;
}
static void fill_size(reader *r, size_t at) { u32 v = htobe32(r->out_len - at); memcpy(r->out + at - 4, &v, 4); }
static void end(reader *r, size_t at) { fill_size(r, at); put8(r, 0xCE); }

/* Behind a value in a table, whose type stands at p; NULL if it goes beyond the end or is of no known type. */
static const u8 *behind_value(const u8 *p, const u8 *end_) {
    size_t n;
    switch (*p++) {
    case 'V': n = 0; break;
    case 't': case 'b': case 'B': n = 1; break;
    case 's': case 'u': n = 2; break;
    case 'I': case 'i': case 'f': n = 4; break;
    case 'D': n = 5; break;
    case 'l': case 'L': case 'd': case 'T': n = 8; break;
    case 'S': case 'x': case 'A': case 'F': if (end_ - p < 4) return NULL; n = 4 + (size_t)get32(p); break;
    default: return NULL;
    }
    return n <= (size_t)(end_ - p) ? p + n : NULL;
}

/* x-stream-offset among the headers of a content header; NONE if it is not there. */
static u64 stream_offset(const u8 *p, u32 size) {
    static const u8 name[] = "\017x-stream-offset";
    const u8 *end_ = p + size;
    if (size < 14) return NONE;
    u16 flags = get16(p + 12);
    p += 14;
    if (flags & 0x8000) p += 1 + *p;
    if (flags & 0x4000) p += 1 + *p;
    if (!(flags & 0x2000) || end_ - p < 4 || get32(p) > (u32)(end_ - p - 4)) return NONE;
    end_ = p + 4 + get32(p);
    for (p += 4; p && end_ - p > 2;) {
        if (end_ - p >= 25 && !memcmp(p, name, 16) && p[16] == 'l') return get64(p + 17);
        p += 1 + *p;
        p = p < end_ ? behind_value(p, end_) : NULL;
    }
    return NONE;
}

/* ------------------------------------------------------------------ what is sent */

static void flush(reader *r) {
    while (r->out_at < r->out_len) {
        ssize_t n = send(r->fd, r->out + r->out_at, r->out_len - r->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) { if (g.closing) { r->closed = 1; return; } die("send: %s", strerror(errno)); }
        r->out_at += n;
    }
    if (r->out_at == r->out_len) r->out_at = r->out_len = 0;
    if (r->want_out != (r->out_len > 0)) {
        r->want_out = r->out_len > 0;
        struct epoll_event e = { .events = EPOLLIN | (r->want_out ? EPOLLOUT : 0), .data.ptr = r };
        epoll_ctl(g.epoll, EPOLL_CTL_MOD, r->fd, &e);
    }
}

static void send_start_ok(reader *r) {
    size_t f = begin(r, 0, M(10, 11)), table, more;
    char plain[512]; int n = snprintf(plain, sizeof plain, "%c%s%c%s", 0, o.user, 0, o.password);
    put32(r, 0); table = r->out_len;
    put_short(r, "product"); put8(r, 'S'); put_long(r, "stream_reader", 13);
    put_short(r, "capabilities"); put8(r, 'F'); put32(r, 0); more = r->out_len;
    put_short(r, "consumer_cancel_notify"); put8(r, 't'); put8(r, 1);
    put_short(r, "authentication_failure_close"); put8(r, 't'); put8(r, 1);
    fill_size(r, more); fill_size(r, table);
    put_short(r, "PLAIN"); put_long(r, plain, n); put_short(r, "en_US");
    end(r, f);
}

/* first, last, next and intervals go as they are; a number is an offset, one behind @ is seconds since 1970. */
static void send_consume(reader *r, const char *from) {
    char tag[16], *rest; size_t f = begin(r, 1, M(60, 20)), table;
    int is_time = *from == '@';
    long long number = strtoll(from + is_time, &rest, 10);
    int is_number = rest != from + is_time && !*rest;
    if (is_time && !is_number) die("no moment: %s", from);
    snprintf(tag, sizeof tag, "%d", ++r->tag);
    put16(r, 0); put_short(r, o.stream); put_short(r, tag); put8(r, 0);
    put32(r, 0); table = r->out_len;
    put_short(r, "x-stream-offset");
    if (is_number) { put8(r, is_time ? 'T' : 'l'); put64(r, number); }
    else { put8(r, 'S'); put_long(r, from, strlen(from)); }
    fill_size(r, table); end(r, f);
    r->begun = now_ns();
}

static void send_ack(reader *r) {
    size_t f = begin(r, 1, M(60, 80)); put64(r, r->delivery_tag); put8(r, 1); end(r, f);
    r->unacked = 0;
}

static void send_cancel(reader *r) {
    char tag[16]; size_t f = begin(r, 1, M(60, 30));
    snprintf(tag, sizeof tag, "%d", r->tag);
    put_short(r, tag); put8(r, 0); end(r, f);
}

/* ------------------------------------------------------------------ what is received */

static void finish(reader *r) {
    if (r->finished) return;
    r->finished = 1; g.finished++;
    r->ended = now_ns();
    if (r->unacked) send_ack(r);
}

static void take_seek(reader *r) {
    if (!r->current) return;
    seek *s = &g.seeks[g.seeks_done++];
    s->ns = now_ns() - r->begun; s->offset = r->offset;
    r->current = 0; r->messages++;
    send_ack(r); send_cancel(r);
}

static void take_message(reader *r) {
    if (o.seek) { take_seek(r); return; }
    if (r->finished) return;                             /* what was on its way when it had enough */
    if (r->offset == NONE) g.unnumbered = 1;
    if (!r->messages++) r->first = r->offset;
    else if (r->offset <= r->last) r->backwards++;
    else if (r->offset != r->last + 1) { r->gaps++; r->missing += r->offset - r->last - 1; }
    r->last = r->offset;
    if (++r->unacked >= o.ack_every) send_ack(r);
    if ((o.messages && r->messages >= o.messages) || r->last >= o.until) finish(r);
}

static void on_method(reader *r, const u8 *p) {
    size_t f; u32 frame_max;
    switch (get32(p)) {
    case START: send_start_ok(r); break;
    case TUNE:
        frame_max = get32(p + 6) && get32(p + 6) < FRAME_BYTES_MAX ? get32(p + 6) : FRAME_BYTES_MAX;
        f = begin(r, 0, M(10, 31)); put16(r, get16(p + 4)); put32(r, frame_max); put16(r, 0); end(r, f);
        f = begin(r, 0, M(10, 40)); put_short(r, o.vhost); put_short(r, ""); put8(r, 0); end(r, f);
        break;
    case OPEN_OK: f = begin(r, 1, M(20, 10)); put_short(r, ""); end(r, f); break;
    case CHANNEL_OPEN_OK: f = begin(r, 1, M(60, 10)); put32(r, 0); put16(r, o.prefetch); put8(r, 0); end(r, f); break;
    case QOS_OK: send_consume(r, o.starts[r->index % o.starts_count]); r->current = 1; break;
    case CONSUME_OK: r->consuming = 1; break;
    case CANCEL_OK:
        if (g.seeks_done == o.starts_count) finish(r);
        else { send_consume(r, o.starts[g.seeks_done]); r->current = 1; }
        break;
    case CLOSE_OK: r->closed = 1; break;
    case CANCEL: die("the broker cancelled the consumer");
    case CLOSE: case CHANNEL_CLOSE: die("closed by the broker: %u %.*s", get16(p + 4), p[6], p + 7);
    default: die("unexpected method %u.%u", get16(p), get16(p + 2));
    }
}

static void on_frame(reader *r, const u8 *p, u32 size) {
    const u8 *payload = p + 7;
    if (p[0] == 1 && get32(payload) == DELIVER) {
        u32 tag_size = payload[4], tag = 0;
        for (u32 i = 0; o.seek && i < tag_size; i++) tag = tag * 10 + payload[5 + i] - '0';
        r->delivery_tag = get64(payload + 5 + tag_size);
        r->late = o.seek && (int)tag != r->tag;
    } else if (p[0] == 1) on_method(r, payload);
    else if (p[0] == 2) {
        r->body_left = get64(payload + 4);
        r->bytes += r->finished ? 0 : r->body_left;
        r->offset = stream_offset(payload, size);
        if (!r->body_left && !r->late) take_message(r);
    } else if (p[0] == 3) {
        if (size > r->body_left) die("a body longer than announced");
        r->body_left -= size;
        if (!r->body_left && !r->late) take_message(r);
    } else if (p[0] != 8) die("a frame of type %d", p[0]);
}

static void on_readable(reader *r) {
    ssize_t n = recv(r->fd, r->in + r->in_len, r->in_cap - r->in_len, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        if (!g.closing) die("reader %d: connection lost: %s", r->index, n ? strerror(errno) : "closed by the broker");
        r->closed = 1;
        return;
    }
    r->in_len += n;
    u8 *p = r->in, *end_ = r->in + r->in_len;
    while (end_ - p >= 8) {
        u32 size = get32(p + 3);
        if (size > FRAME_BYTES_MAX) die("a frame of %u octets", size);
        if ((size_t)(end_ - p) < size + 8ul) break;
        if (p[7 + size] != 0xCE) die("a frame without its end");
        on_frame(r, p, size);
        p += size + 8;
    }
    r->in_len = end_ - p;
    memmove(r->in, p, r->in_len);
    flush(r);
}

static void pump(int timeout_ms) {
    struct epoll_event events[64];
    int n = epoll_wait(g.epoll, events, 64, timeout_ms);
    for (int i = 0; i < n; i++) {
        reader *r = events[i].data.ptr;
        if (r->closed) continue;
        if (events[i].events & EPOLLOUT) flush(r);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_readable(r);
        if (r->closed) epoll_ctl(g.epoll, EPOLL_CTL_DEL, r->fd, NULL);
    }
}

/* ------------------------------------------------------------------ the run */

static void open_reader(reader *r, int index) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(o.port) };
    if (inet_pton(AF_INET, o.host, &address.sin_addr) != 1) die("not an IPv4 address: %s", o.host);
    r->index = index; r->offset = r->first = r->last = NONE;
    if (!(r->in = malloc(r->in_cap = BUFFER_BYTES))) die("out of memory");
    if ((r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) die("socket: %s", strerror(errno));
    if (connect(r->fd, (struct sockaddr *)&address, sizeof address))
        die("connect to %s:%d: %s", o.host, o.port, strerror(errno));
    fcntl(r->fd, F_SETFL, O_NONBLOCK);                   /* only now: a connection on loopback stands at once */
    setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = r };
    epoll_ctl(g.epoll, EPOLL_CTL_ADD, r->fd, &e);
    memcpy(room(r, 8), "AMQP\0\0\x09\x01", 8);
    flush(r);
}

static void run(void) {
    u64 seen = NONE, progress = now_ns(), deadline = o.seconds > 0 ? g.now + (u64)(o.seconds * 1e9) : NONE;
    while (g.finished < o.readers) {
        pump(100);
        u64 sum = 0;
        for (int i = 0; i < o.readers; i++) sum += g.readers[i].messages;
        if (sum != seen) { seen = sum; progress = now_ns(); }
        else if (now_ns() - progress > o.stall_s * NS) { g.timed_out = 1; break; }
        if (g.now > deadline) break;
    }
    for (int i = 0; i < o.readers; i++) finish(&g.readers[i]);
}

static void close_all(void) {
    g.closing = 1;
    for (int i = 0; i < o.readers; i++) {
        reader *r = &g.readers[i];
        size_t f = begin(r, 0, M(10, 50)); put16(r, 200); put_short(r, "bye"); put32(r, 0); end(r, f);
        flush(r);
    }
    for (u64 last = now_ns() + 2 * NS; now_ns() < last;) {
        int open = 0;
        for (int i = 0; i < o.readers; i++) open += !g.readers[i].closed;
        if (!open) break;
        pump(10);
    }
}

/* ------------------------------------------------------------------ report */

static double cpu_s(void) {
    struct rusage u; getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* gaps: how often an offset was not the one after that before; missing: how many were left out; backwards: how often
 * one did not grow.  seconds: from the first basic.consume to the last message of the last reader. */
static int report(void) {
    u64 messages = 0, bytes = 0, gaps = 0, missing = 0, backwards = 0, begun = NONE, ended = 0;
    for (int i = 0; i < o.readers; i++) {
        reader *r = &g.readers[i];
        messages += r->messages; bytes += r->bytes; gaps += r->gaps; missing += r->missing; backwards += r->backwards;
        if (r->begun && r->begun < begun) begun = r->begun;
        if (r->ended > ended) ended = r->ended;
    }
    int ok = !g.timed_out && !g.unnumbered && !backwards;
    printf("{\"ok\":%s,\"timed_out\":%d,\"unnumbered\":%d,", ok ? "true" : "false", g.timed_out, g.unnumbered);
    printf("\"messages\":%lu,\"bytes\":%lu,\"seconds\":%.6f,\"cpu_s\":%.3f,", messages, bytes,
           begun < ended ? (ended - begun) / 1e9 : 0.0, cpu_s());
    printf("\"gaps\":%lu,\"missing\":%lu,\"backwards\":%lu,\"readers\":[", gaps, missing, backwards);
    for (int i = 0; i < o.readers; i++) {
        reader *r = &g.readers[i];
        printf("%s{\"messages\":%lu,\"seconds\":%.6f,\"first\":%ld,\"last\":%ld}", i ? "," : "", r->messages,
               r->begun ? (r->ended - r->begun) / 1e9 : 0.0, (long)r->first, (long)r->last);
    }
    printf("],\"seeks\":[");
    for (int i = 0; i < g.seeks_done; i++)
        printf("%s{\"us\":%.1f,\"offset\":%ld}", i ? "," : "", g.seeks[i].ns / 1e3, (long)g.seeks[i].offset);
    printf("]}\n");
    fflush(stdout);
    return ok;
}

/* ------------------------------------------------------------------ main */

static const char usage[] =
"stream_reader [options]\n"
"  --host ADDRESS --port P --user U --pass P --vhost V   (127.0.0.1 5672 guest guest /)\n"
"  --stream NAME                                         (al.q.0, where amqpload --fill publishes to)\n"
"  --readers N                                           one connection each\n"
"  --from START[,START...]                               first | last | next | OFFSET | @SECONDS since 1970; in turns\n"
"  --prefetch N --ack K                                  (1000, 100) one multiple ack for K messages\n"
"  --messages N | --until OFFSET | --seconds S           when each reader has enough\n"
"  --seek                                                one message from each START, one after the other\n"
"  --stall S                                             gives up after so many seconds without a message (20)\n";

static void parse_starts(char *text) {
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        if (!(o.starts = realloc(o.starts, (o.starts_count + 1) * sizeof *o.starts))) die("out of memory");
        o.starts[o.starts_count++] = word;
    }
}

static void parse_options(int argc, char **argv) {
    enum { HOST = 256, PORT, USER, PASS, VHOST, STREAM, READERS, FROM, PREFETCH, ACK, MESSAGES, UNTIL, SECONDS, STALL,
           HELP };
    static const struct option known[] = {
        { "host", 1, 0, HOST }, { "port", 1, 0, PORT }, { "user", 1, 0, USER }, { "pass", 1, 0, PASS },
        { "vhost", 1, 0, VHOST }, { "stream", 1, 0, STREAM }, { "readers", 1, 0, READERS }, { "from", 1, 0, FROM },
        { "prefetch", 1, 0, PREFETCH }, { "ack", 1, 0, ACK }, { "messages", 1, 0, MESSAGES },
        { "until", 1, 0, UNTIL }, { "seconds", 1, 0, SECONDS }, { "stall", 1, 0, STALL },
        { "seek", 0, &o.seek, 1 }, { "help", 0, 0, HELP }, { 0 } };
    for (int k; (k = getopt_long(argc, argv, "", known, NULL)) != -1;) switch (k) {
        case 0: break;
        case HOST: o.host = optarg; break;              case PORT: o.port = atoi(optarg); break;
        case USER: o.user = optarg; break;              case PASS: o.password = optarg; break;
        case VHOST: o.vhost = optarg; break;            case STREAM: o.stream = optarg; break;
        case READERS: o.readers = atoi(optarg); break;  case FROM: parse_starts(optarg); break;
        case PREFETCH: o.prefetch = atoi(optarg); break; case ACK: o.ack_every = atoi(optarg); break;
        case MESSAGES: o.messages = strtoull(optarg, NULL, 10); break;
        case UNTIL: o.until = strtoull(optarg, NULL, 10); break;
        case SECONDS: o.seconds = atof(optarg); break;  case STALL: o.stall_s = atoi(optarg); break;
        case HELP: fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
    }
    if (!o.starts_count) parse_starts(strdup("first"));
    if (o.seek) { o.readers = 1; o.prefetch = 1; }
    if (o.readers < 1 || o.prefetch < 1 || o.prefetch > 65535 || o.ack_every < 1)
        die("bad number of readers, prefetch or acks");
    if (o.ack_every > (o.prefetch + 1) / 2) o.ack_every = (o.prefetch + 1) / 2;
    if (!o.seek && !o.messages && o.until == NONE && o.seconds <= 0)
        die("one of --messages, --until, --seconds and --seek is needed");
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    prctl(PR_SET_TIMERSLACK, 1000);
    g.epoll = epoll_create1(EPOLL_CLOEXEC);
    g.readers = calloc(o.readers, sizeof *g.readers);
    g.seeks = calloc(o.starts_count, sizeof *g.seeks);
    for (int i = 0; i < o.readers; i++) open_reader(&g.readers[i], i);
    run();
    int ok = report();
    close_all();
    return ok ? 0 : 2;
}
