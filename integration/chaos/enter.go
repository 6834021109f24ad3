package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// insideEnv is set in the process inside the laboratory's namespaces.
const insideEnv = "CHAOS_INSIDE"

// Inside reports whether this process runs in the laboratory's namespaces.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Enter runs this program again in new network, mount and process namespaces, and returns its exit
// code. Everything that a run creates (interfaces, addresses, mounts, processes) exists only there,
// so it conflicts with nothing and ends with the run: the kernel removes it all when the first
// process of the namespaces ends, and that process is killed with this one. The calling goroutine
// must keep its thread.
func Enter() (code int, err error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // ^C is forwarded once, from here
	}
	if os.Getuid() != 0 { // use a user namespace, if the system allows it
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if Foreign() {
		env, end, failed := forwardOut()
		if failed != nil {
			return 2, failed
		}
		cmd.Env = append(cmd.Env, env...)
		defer func() { err = errors.Join(err, end()) }()
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 2, fmt.Errorf("the laboratory needs network, mount and process namespaces, and this user may not create them; run it as root: %w", err)
	}
	go pass(signals, cmd.Process)
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 2, err
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		return 2, fmt.Errorf("the run was killed: %v", cmd.ProcessState)
	}
	return code, nil
}

// pass forwards the first signal, and kills everything at the second.
func pass(signals <-chan os.Signal, inside *os.Process) {
	_ = inside.Signal(<-signals)
	<-signals
	_ = inside.Kill()
}

// workshop is the folder for the data of all servers. It is in memory, invisible outside, and gone
// after the run.
const workshop = "/run/seqd-chaos"

// furnish makes new namespaces usable. It keeps mounts inside, and mounts a /proc for the processes
// inside and a /run for the workshop, the names of network namespaces and the lock of iptables.
func furnish() error {
	return inOrder(
		func() error {
			return named("keep mounts inside", syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		},
		func() error { return named("mount /proc", syscall.Mount("proc", "/proc", "proc", 0, "")) },
		func() error { return named("mount /run", syscall.Mount("tmpfs", "/run", "tmpfs", 0, "size=128m")) },
		func() error { return os.Mkdir("/run/netns", 0o755) },
		func() error { return os.Mkdir(workshop, 0o755) },
	)
}

// named adds what failed to an error.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
