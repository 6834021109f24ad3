package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// insideEnv marks the process that runs inside the laboratory's own namespaces.
const insideEnv = "CHAOS_INSIDE"

// Inside reports whether this process runs in namespaces of its own already.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Enter runs this program once more, in network, mount and process namespaces of its own, and returns its exit code. Everything that a run makes (interfaces,
// addresses, mounts, processes) exists only there, so that it collides with nothing and ends with the run however that ends: the kernel takes it all down when
// the first process of the namespaces is gone, which is killed with this one. The calling goroutine must keep its thread.
func Enter() (code int, err error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // ^C comes once, from here
	}
	if os.Getuid() != 0 {
		return 1, errors.New("network namespaces need root: run it as root or with sudo")
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("this machine (or container) gives no namespaces of its own, which the laboratory is made of: %w", err)
	}
	go pass(signals, cmd.Process)
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 1, err
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		return 1, fmt.Errorf("the run was killed: %v", cmd.ProcessState)
	}
	return code, nil
}

// pass hands the first signal on, and ends everything at the second.
func pass(signals <-chan os.Signal, inside *os.Process) {
	_ = inside.Signal(<-signals)
	<-signals
	_ = inside.Kill()
}

// workshop is where everything is that servers keep: a file system in memory that nobody outside sees, and that ends with the run.
const workshop = "/run/seqd-chaos"

// furnish makes fresh namespaces usable: mounts that stay inside, a /proc of the own processes, a place for names of network namespaces, and the workshop.
func furnish() error {
	const names = "/run/netns"
	if err := errors.Join(os.MkdirAll(names, 0o755), os.MkdirAll(workshop, 0o755)); err != nil {
		return err
	}
	return errors.Join(
		named("keep mounts inside", syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")),
		named("mount /proc", syscall.Mount("proc", "/proc", "proc", 0, "")),
		named("mount "+names, syscall.Mount("tmpfs", names, "tmpfs", 0, "size=64k")),
		named("mount "+workshop, syscall.Mount("tmpfs", workshop, "tmpfs", 0, "size=64m")),
	)
}

// named says what failed.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
