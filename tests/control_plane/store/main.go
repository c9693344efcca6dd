// The shop of manifests/examples/three-tier.yaml, which keeps its orders in the database that DATABASE_URL names.
//
//	store migrate     create the table
//	store work        place an order every second, from the region that REGION names
//	store             serve 8080: / shows the orders, /ready answers 200 while the database does
package main

import (
	"context"
	"database/sql"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/lib/pq"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<title>Store</title>
<h1>Store {{.Version}}</h1>
<p>{{.Total}} orders; flags: {{.Flags}}</p>
<table>
<tr><th>region</th><th>orders</th></tr>
{{range .Regions}}<tr><td>{{.Name}}</td><td>{{.Orders}}</td></tr>
{{end}}</table>
<p>Served by {{.Host}}.</p>
`))

type region struct {
	Name   string
	Orders int
}

func main() {
	database, err := sql.Open("postgres", os.Getenv("DATABASE_URL")+"?sslmode=disable&connect_timeout=3")
	if err != nil {
		fail(err)
	}
	switch what := append(os.Args, "serve")[1]; what {
	case "migrate":
		if _, err := database.Exec("create table if not exists orders (region text not null, placed timestamptz default now())"); err != nil {
			fail(err)
		}
		fmt.Println("migrated to", os.Getenv("VERSION"))
	case "work":
		work(database)
	default:
		serve(database)
	}
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func work(database *sql.DB) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	for {
		if _, err := database.Exec("insert into orders (region) values ($1)", os.Getenv("REGION")); err != nil {
			fmt.Println(err)
		}
		select {
		case <-ended:
			return
		case <-time.After(time.Second):
		}
	}
}

func serve(database *sql.DB) {
	http.HandleFunc("/ready", func(writer http.ResponseWriter, _ *http.Request) {
		if err := database.Ping(); err != nil {
			http.Error(writer, err.Error(), http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/", func(writer http.ResponseWriter, _ *http.Request) {
		regions, err := count(database)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		flags, _ := os.ReadFile("/etc/store/flags.json")
		host, _ := os.Hostname()
		total := 0
		for _, each := range regions {
			total += each.Orders
		}
		page.Execute(writer, map[string]any{
			"Version": os.Getenv("VERSION"), "Total": total, "Flags": string(flags), "Regions": regions, "Host": host,
		})
	})
	server := &http.Server{Addr: ":8080"}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		fmt.Println(server.ListenAndServe())
	}()
	<-ended
	// Requests come until all nodes know that this Pod is no longer an endpoint.
	time.Sleep(2 * time.Second)
	server.Shutdown(context.Background())
}

func count(database *sql.DB) ([]region, error) {
	rows, err := database.Query("select region, count(*) from orders group by region order by region")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var regions []region
	for rows.Next() {
		var each region
		if err := rows.Scan(&each.Name, &each.Orders); err != nil {
			return nil, err
		}
		regions = append(regions, each)
	}
	return regions, rows.Err()
}
