"""The lock of a device."""

from __future__ import annotations

import threading
import time

from pytest_kbench.timing.lock import DeviceLock


def test_those_who_share_do_not_wait_for_each_other(tmp_path):
    lock = DeviceLock("cpu", tmp_path)
    with lock.shared(), DeviceLock("cpu", tmp_path).shared():
        pass


def test_whoever_is_alone_waits_for_all_and_is_not_overtaken(tmp_path):
    done = []

    def alone():
        with DeviceLock("cpu", tmp_path).alone():
            done.append("alone")

    def late():
        with DeviceLock("cpu", tmp_path).shared():
            done.append("late")

    with DeviceLock("cpu", tmp_path).shared():
        first = threading.Thread(target=alone)
        first.start()
        time.sleep(0.2)  # it waits at the lock now, holding the gate
        second = threading.Thread(target=late)
        second.start()
        time.sleep(0.2)
        assert done == []
    first.join()
    second.join()
    assert done == ["alone", "late"]


def test_devices_have_locks_of_their_own(tmp_path):
    with DeviceLock("cuda:0", tmp_path).alone(), DeviceLock("cuda:1", tmp_path).alone():
        pass


def test_where_no_file_can_be_made_there_is_no_lock(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with DeviceLock("cpu", file).alone():
        pass


def test_who_has_a_gpu_alone_shares_the_machine_and_keeps_others_from_having_it_alone(tmp_path):
    done = []

    def cpu_alone():
        with DeviceLock("cpu", tmp_path).alone():
            done.append("cpu")

    with DeviceLock("cuda:0", tmp_path).beside(DeviceLock("cpu", tmp_path)).alone():
        with DeviceLock("cuda:1", tmp_path).beside(DeviceLock("cpu", tmp_path)).shared():
            pass
        waiting = threading.Thread(target=cpu_alone)
        waiting.start()
        time.sleep(0.2)
        assert done == []
    waiting.join()
    assert done == ["cpu"]
