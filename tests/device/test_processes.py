"""Other processes: after a fork, and tensors sent to another process."""


def test_use_after_fork(run_python):
    run_python("""
        import os, torch
        x = torch.ones(2, device="tpu") + 1
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert torch.tpu._is_in_bad_fork() and not torch.tpu.is_initialized()
                torch.manual_seed(1)  # must not fail
                for use in (lambda: x + 1, lambda: x.cpu(), lambda: torch.ones(2, device="tpu"),
                            torch.tpu.init, torch.tpu.synchronize,
                            lambda: torch.tpu.Event().record()):
                    try:
                        use()
                    except RuntimeError as error:
                        assert "in a process forked after it was started" in str(error)
                        assert "'spawn'" in str(error)
                    else:
                        raise AssertionError("no error")
                assert torch.ones(2).add(1).tolist() == [2, 2]
                del x
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert (x + 1).tolist() == [3, 3]
    """)


def test_fork_before_the_start(run_python):
    run_python("""
        import os, torch
        torch.manual_seed(1)
        assert torch.tpu.is_available()
        pid = os.fork()
        if pid == 0:
            ok = (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
            os._exit(0 if ok and not torch.tpu._is_in_bad_fork() else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert not torch.tpu.is_initialized()
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    """)


def test_sending_a_tensor_is_refused(run_python):
    run_python("""
        import torch
        from multiprocessing.reduction import ForkingPickler
        x = torch.ones(2, device="tpu")
        for obj in (x, torch.nn.Parameter(x), x.untyped_storage()):
            try:
                ForkingPickler.dumps(obj)
            except RuntimeError as error:
                assert "cannot be sent to another process" in str(error), error
                assert "tensor.cpu()" in str(error)
            else:
                raise AssertionError("no error")
        ForkingPickler.dumps(torch.ones(2))  # others see no change
    """)


def test_spawned_process_has_a_device_of_its_own(run_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import torch
import torch.multiprocessing as mp

def work(rank, queue):
    queue.put((torch.ones(2, device="tpu") * rank).cpu().tolist())

if __name__ == "__main__":
    torch.tpu.init()
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(queue,), nprocs=2)
    assert sorted(queue.get() for _ in range(2)) == [[0, 0], [1, 1]]
""")
    run_python(f"""
        import subprocess, sys
        subprocess.run([sys.executable, {str(script)!r}], check=True)
    """)
