// A server that does what a test tells it to, and the first process of each Pod.
//
//	workload pause                     wait and reap
//	workload [FLAGS]                   serve 8080: /ready and /live answer 200 as the flags say, /env the environment
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "pause" {
		pause()
	}
	slow := flag.Duration("slow", 0, "time before it serves")
	crash := flag.Duration("crash", 0, "time after which it ends")
	code := flag.Int("code", 1, "exit code of its end")
	leak := flag.Duration("leak", 0, "time after which it takes memory until it is killed")
	hang := flag.Duration("hang", 0, "time after which /live no longer answers 200")
	unready := flag.Bool("unready", false, "/ready answers 503")
	linger := flag.Duration("linger", 0, "time between SIGTERM and its end")
	lock := flag.String("lock", "", "file that only one process may hold: another one ends with code 9")
	history := flag.String("history", "/data/history", "file that gets a line when it takes the lock, is told to end, has left")
	words := flag.String("words", "", "last words before it ends")
	flag.Parse()

	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	if *lock != "" {
		hold(*lock, *history)
	}
	started := time.Now()
	go serve(*slow, *unready, func() bool { return *hang == 0 || time.Since(started) < *hang })
	if *leak > 0 {
		time.AfterFunc(*leak, take)
	}
	var end <-chan time.Time
	if *crash > 0 {
		end = time.After(*crash)
	}
	select {
	case <-end:
		fmt.Println(*words)
		os.Exit(*code)
	case <-terms:
		if *lock != "" {
			note(*history, "ending")
			defer note(*history, "left")
		}
		time.Sleep(*linger)
	}
}

// hold takes the lock; the kernel releases it with the process.
func hold(lock, history string) {
	// A bare descriptor: a file of the library would be closed, and unlocked, once it is garbage.
	descriptor, err := syscall.Open(lock, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
	if err == nil {
		err = syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		fmt.Printf("cannot lock %s: %v\n", lock, err)
		note(history, "refused")
		os.Exit(9)
	}
	note(history, "took")
}

func note(history, what string) {
	file, err := os.OpenFile(history, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err == nil {
		name, _ := os.Hostname()
		fmt.Fprintln(file, what, name)
		file.Close()
	}
}

func serve(slow time.Duration, unready bool, alive func() bool) {
	time.Sleep(slow)
	answer := func(good func() bool) http.HandlerFunc {
		return func(writer http.ResponseWriter, _ *http.Request) {
			if !good() {
				writer.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	http.HandleFunc("/ready", answer(func() bool { return !unready }))
	http.HandleFunc("/live", answer(alive))
	http.HandleFunc("/env", func(writer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(writer, strings.Join(os.Environ(), "\n"))
	})
	fmt.Println("serving")
	fmt.Println(http.ListenAndServe(":8080", nil))
}

func take() {
	var held [][]byte
	for {
		part := make([]byte, 8<<20)
		for at := range part {
			part[at] = 1
		}
		held = append(held, part)
		time.Sleep(20 * time.Millisecond)
	}
}

func pause() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for got := range signals {
		if got != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			if process, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || process <= 0 {
				break
			}
		}
	}
}
