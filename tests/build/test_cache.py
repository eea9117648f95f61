"""The cache of builds: complete or absent, made once, whoever is killed meanwhile."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_kbench.build.cache import Store, default_root, key
from pytest_kbench.build.errors import CacheError

KEY = key(["something"])


def put(store: Store, data: bytes = b"library") -> Path:
    with store.locked(KEY) as entry:
        with entry.writing() as folder:
            (folder / "kernel.so").write_bytes(data)
        return entry.path


def complete(store: Store) -> bool:
    with store.locked(KEY) as entry:
        return entry.complete


def test_a_key_depends_on_every_part_and_on_where_parts_end():
    keys = {key(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", b"c"], ["c", "ab"], ["ab", "c", ""])}
    assert len(keys) == 6
    assert key(["ab", "c"]) == key(["ab", "c"])


def test_the_root_is_the_users_cache_folder(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_root() == Path("/somewhere/pytest-kbench")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_root() == Path("/home/someone/.cache/pytest-kbench")


def test_an_entry_is_absent_until_its_block_ends(store):
    with store.locked(KEY) as entry:
        assert not entry.complete
        with entry.writing() as folder:
            (folder / "kernel.so").write_bytes(b"library")
            assert not entry.path.exists()
        assert entry.complete
    assert complete(store)


def test_a_block_that_raises_leaves_nothing(store):
    def half_a_build(entry):
        with entry.writing() as folder:
            (folder / "kernel.so").write_bytes(b"half")
            raise ZeroDivisionError

    with store.locked(KEY) as entry:
        with pytest.raises(ZeroDivisionError):
            half_a_build(entry)
        assert not entry.complete
        assert list(entry.path.parent.iterdir()) == []


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "extra", "link", "no checksums", "a file"])
def test_a_damaged_entry_is_not_complete_and_can_be_made_again(store, damage):
    path = put(store)
    library = path / "kernel.so"
    match damage:
        case "truncated":
            library.write_bytes(b"lib")
        case "altered":
            library.write_bytes(b"librarx")
        case "missing":
            library.unlink()
        case "extra":
            (path / "other").write_bytes(b"")
        case "link":
            library.unlink()
            library.symlink_to("/etc/passwd")
        case "no checksums":
            (path / "checksums.json").write_text("[[[")
        case "a file":
            library.unlink()
            (path / "checksums.json").unlink()
            path.rmdir()
            path.write_text("not a folder")
    assert not complete(store)
    put(store)
    assert complete(store)


def test_only_the_user_can_enter(store):
    path = put(store)
    for folder in (store.root, path.parent, path):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.root.chmod(0o755)
    assert complete(store)
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700


BUILDER = """
import sys, time
from pathlib import Path
from pytest_kbench.build.cache import Store
root, key, log = sys.argv[1:]
with Store(Path(root)).locked(key) as entry:
    if not entry.complete:
        with entry.writing() as folder:
            (folder / "kernel.so").write_bytes(b"half")
            with open(log, "a") as file:
                file.write("built\\n")
            time.sleep({seconds})
            (folder / "kernel.so").write_bytes(b"library")
"""


def builder(store: Store, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BUILDER.format(seconds=seconds), str(store.root), KEY, str(log)])


def wait_for(path: Path) -> None:
    end = threading.Event()
    for _ in range(1000):
        if path.exists():
            return
        end.wait(0.01)
    raise AssertionError(f"{path} did not come")


def test_a_killed_builder_frees_its_lock_and_its_half_written_folder_goes(store, tmp_path):
    log = tmp_path / "log"
    process = builder(store, log, 60)
    wait_for(log)
    with pytest.raises(TimeoutError, match="another process has been building"), store.locked(KEY, seconds=0.1):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list((store.root / "entries").iterdir())) == 1
    with store.locked(KEY, seconds=5) as entry:
        assert not entry.complete
        assert list(entry.path.parent.iterdir()) == []


def test_many_processes_build_once(store, tmp_path):
    log = tmp_path / "log"
    processes = [builder(store, log, 0.2) for _ in range(6)]
    assert [process.wait() for process in processes] == [0] * 6
    assert log.read_text() == "built\n"
    assert complete(store)


def test_threads_exclude_each_other_too(store):
    inside = []

    def enter():
        with store.locked(KEY):
            inside.append(1)
            threading.Event().wait(0.02)
            assert inside.pop() == 1
            assert not inside

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_keys_do_not_wait_for_each_other(store):
    with store.locked(KEY), store.locked(key(["something else"]), seconds=0) as entry:
        assert not entry.complete


def test_a_full_disk_is_said_with_path_and_fix(store):
    def fill_the_disk(entry):
        with entry.writing() as folder:
            (folder / "kernel.so").symlink_to("/dev/full")
            (folder / "kernel.so").write_bytes(b"library")

    with store.locked(KEY) as entry, pytest.raises(CacheError, match=r"\(no space left on device\)\. Free some space"):
        fill_the_disk(entry)
    assert not complete(store)


def test_a_file_in_the_way_is_said_with_path_and_fix(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "cache")
    with pytest.raises(CacheError, match="A file is in the way") as caught, store.locked(KEY):
        pass
    assert caught.value.errno == errno.ENOTDIR
    assert str(tmp_path / "file") in str(caught.value)


def test_a_read_only_file_system_is_said_with_path_and_fix(store, monkeypatch):
    def refuse(*_args, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(store.root))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CacheError, match=r"read-only file system\).*XDG_CACHE_HOME"), store.locked(KEY):
        pass


def test_a_folder_of_somebody_else_is_refused(store, monkeypatch):
    put(store)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CacheError, match="belongs to another user"), store.locked(KEY):
        pass


def test_a_workplace_goes_away_and_so_do_old_ones(store):
    with store.workplace() as place:
        (place / "unit.o").write_text("")
    assert not place.exists()
    with store.workplace() as left:
        (left / "unit.o").write_text("")
        os.utime(left, (0, 0))
        with store.workplace():
            assert not left.exists()
