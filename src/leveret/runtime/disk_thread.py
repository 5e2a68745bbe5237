"""A thread that writes, syncs and reads files while the loop goes on.

It takes one job at a time: a few steps, done in order, the first error ends it. Compiled, the thread never needs the
interpreter's lock, so a busy loop cannot hold the disk up, nor a slow disk the loop. The loop learns that a job is done
from an event descriptor that it watches."""

import errno
import os
import threading

import cython

if cython.compiled:
    from cython.cimports.libc.stdlib import free, realloc
else:
    from leveret.runtime.pure_disk import (
        Step,
        await_event,
        now_us,
        read_at,
        reserve_at,
        signal_event,
        sync_data,
        write_at,
    )

    PREPARE = 0
    WRITE = 1
    SYNC = 2
    READ = 3
    RESERVE = 4

FIRST_STEPS = 64


class Preparer:
    """Something to be done to octets before they are written, in the thread: checksums, for one."""

    def prepare(self, p, start, size, salt):
        """Must not touch any Python object when compiled."""


class DiskThread:
    def __init__(self, name, preparer=None):
        self.preparer = preparer
        # Readable once a job is done.
        self.done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self.capacity = 0
        self.count = 0
        self.make_room()
        # What the steps point into, kept from being freed.
        self.buffers = []
        # True from `submit` to `finish`.
        self.busy = False
        # The error of the last job, 0 if there was none, and the step that had it.
        self.error = 0
        self.failed_step = 0
        self.sync_us = 0
        self.sync_count = 0
        self.written_bytes_total = 0
        self.writes_total = 0
        self.read_bytes_total = 0
        self.reads_total = 0
        self.stopping = False
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)
        try:
            self.thread.start()
        except RuntimeError as error:
            os.close(self.done_fd)
            os.close(self.wake_fd)
            raise OSError(errno.EAGAIN, "cannot start a thread") from error

    # ---- on the loop: steps of the next job

    def prepare(self, data, start, size, salt):
        self.add_step(PREPARE, -1, data, start, size, 0, salt)

    def write(self, fd, data, start, size, offset):
        self.add_step(WRITE, fd, data, start, size, offset, 0)

    def read(self, fd, data, start, size, offset):
        """Reads into data, which is filled with zeros where the file ends early or cannot be read: the number of the
        step, for `read_error`. The other steps are done whatever becomes of it."""
        self.add_step(READ, fd, data, start, size, offset, 0)
        return self.count - 1

    def read_error(self, step):
        """What became of this read of the last job: 0 if data has the octets of the file, with zeros only where that
        really ends; else an error number, and then data says nothing about what is on the disk."""
        return self.steps[step].problem

    def reserve(self, fd, size, offset):
        """Takes room in the file now, so that syncs have less to do later."""
        self.add_step(RESERVE, fd, None, 0, size, offset, 0)

    def sync(self, fd):
        self.add_step(SYNC, fd, None, 0, 0, 0, 0)

    def add_step(self, kind, fd, data, start, size, offset, salt):
        if self.busy:
            raise AssertionError("the thread is busy")
        if self.count == self.capacity:
            self.make_room()
        i = self.count
        self.steps[i].kind = kind
        self.steps[i].fd = fd
        self.steps[i].start = start
        self.steps[i].size = size
        self.steps[i].offset = offset
        self.steps[i].salt = salt
        self.steps[i].problem = 0
        if data is not None:
            p = data
            self.steps[i].p = p
            self.buffers.append(data)
        self.count += 1
        return 0

    def make_room(self):
        """For more steps; the thread does not look at them before `submit`."""
        capacity = self.capacity * 2 if self.capacity else FIRST_STEPS
        if cython.compiled:
            steps = cython.cast(cython.pointer(Step), realloc(self.steps, capacity * cython.sizeof(Step)))
            if steps == cython.NULL:
                raise MemoryError()
            self.steps = steps
        else:
            self.steps = [*getattr(self, "steps", []), *(Step() for _ in range(capacity - self.capacity))]
        self.capacity = capacity
        return 0

    def submit(self):
        """Has the steps done. The buffers must not be touched until then."""
        self.busy = True
        self.error = 0
        self.sync_us = 0
        self.sync_count = 0
        os.eventfd_write(self.wake_fd, 1)

    def finish(self):
        """To be called when done_fd is readable: the error number of the job, 0 if all went well."""
        os.eventfd_read(self.done_fd)
        self.busy = False
        self.count = 0
        self.buffers.clear()
        return self.error

    def stop(self):
        """Ends the thread once it is idle, and waits for it. A thread that hangs in the disk is left to the system."""
        self.stopping = True
        os.eventfd_write(self.wake_fd, 1)
        self.thread.join(5)
        if not self.thread.is_alive():
            os.close(self.wake_fd)
            os.close(self.done_fd)
            if cython.compiled:
                # Only now: a thread that hangs may still look at them.
                free(self.steps)
                self.steps = cython.NULL

    # ---- in the thread

    def run(self):
        with cython.nogil:
            self.work()

    def work(self):
        while await_event(self.wake_fd) == 0:
            if self.stopping:
                break
            self.perform()
            signal_event(self.done_fd)

    def perform(self):
        i = 0
        while i < self.count:
            kind = self.steps[i].kind
            if kind == PREPARE:
                self.preparer.prepare(self.steps[i].p, self.steps[i].start, self.steps[i].size, self.steps[i].salt)
                problem = 0
            elif kind == WRITE:
                problem = write_at(
                    self.steps[i].fd, self.steps[i].p, self.steps[i].start, self.steps[i].size, self.steps[i].offset
                )
                self.written_bytes_total += self.steps[i].size
                self.writes_total += 1
            elif kind == READ:
                problem = read_at(
                    self.steps[i].fd, self.steps[i].p, self.steps[i].start, self.steps[i].size, self.steps[i].offset
                )
                self.read_bytes_total += self.steps[i].size
                self.reads_total += 1
                self.steps[i].problem = problem
                problem = 0
            elif kind == RESERVE:
                reserve_at(self.steps[i].fd, self.steps[i].size, self.steps[i].offset)
                problem = 0
            else:
                start = now_us()
                problem = sync_data(self.steps[i].fd)
                self.sync_us += now_us() - start
                self.sync_count += 1
            if problem != 0:
                self.error = problem
                self.failed_step = i
                break
            i += 1
