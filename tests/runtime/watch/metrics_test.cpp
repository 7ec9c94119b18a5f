#include "runtime/watch/metrics.hpp"

#include "runtime/watch/metrics_page.hpp"
#include "runtime/watch/metrics_source.hpp"
#include "tests/runtime/watch/exposition.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <memory>
#include <string>

namespace troupe::tests {
namespace {

using namespace runtime;

run_view small_view() {
  run_view out;
  out.take_run(
      R"({"id":"ab12","name":"small","program":"troupe 0.1.0","started_at":1000,"steps":300})");
  out.take(R"({"kind":"state","at":1001,"state":"training"})");
  out.take(
      R"({"kind":"step","at":1100,"iteration":100,"consumed_samples":800,"consumed_tokens":51200,
          "lm_loss":3.25,"grad_norm":1.5,"learning_rate":0.0005,"elapsed_ms":500,"tokens_per_second":512,
          "teraflops_per_second":0.125,"share_of_matrix_rate":0.5,"pipeline_ms":250,
          "planned_pipeline_ms":200,"bubble":0.25,"planned_bubble":0.125,"skipped_iterations":2})");
  out.take(R"({"kind":"validation","at":1100,"iteration":100,"validation_loss":3.5})");
  return out;
}

/// A process record with all fields.
constexpr const char* process_sample
    = R"({"kind":"process","at":1100,"name":"node:0","role":"node","host":"kiwi","pid":7,"up_s":90,
         "cpu_s":120.5,"resident_bytes":1000,"peak_resident_bytes":2000,"leases":3,
         "memory":{"parameters":400,"idle":50},
         "sent":[{"peer":"stage:0.1","messages":5,"bytes":640}],
         "received":[{"peer":"stage:0.1","messages":4,"bytes":320}],
         "devices":[{"device":0,"name":"GPU","power_w":250,"clock_mhz":1500,"utilisation":0.75,
                   "temperature_c":60,"memory_bytes":4096}],"energy_j":12.5})";

constexpr const char* page_of_small_view = R"(# HELP troupe_run_info Identity of the run. Always 1.
# TYPE troupe_run_info gauge
troupe_run_info{run="ab12",name="small",version="troupe 0.1.0"} 1
# HELP troupe_run_start_time_seconds Start of the run, in Unix seconds.
# TYPE troupe_run_start_time_seconds gauge
troupe_run_start_time_seconds 1000
# HELP troupe_run_state 1 for the current state of the run, 0 for the others.
# TYPE troupe_run_state gauge
troupe_run_state{state="starting"} 0
troupe_run_state{state="training"} 1
troupe_run_state{state="validating"} 0
troupe_run_state{state="paused"} 0
troupe_run_state{state="recovering"} 0
troupe_run_state{state="ending"} 0
troupe_run_state{state="ended"} 0
# HELP troupe_run_steps Steps of the whole run.
# TYPE troupe_run_steps gauge
troupe_run_steps 300
# HELP troupe_iteration Newest committed step.
# TYPE troupe_iteration gauge
troupe_iteration 100
# HELP troupe_loss Newest mean of each loss.
# TYPE troupe_loss gauge
troupe_loss{loss="lm"} 3.25
troupe_loss{loss="validation"} 3.5
# HELP troupe_consumed_samples_total Samples consumed since training began.
# TYPE troupe_consumed_samples_total counter
troupe_consumed_samples_total 800
# HELP troupe_consumed_tokens_total Tokens consumed since training began.
# TYPE troupe_consumed_tokens_total counter
troupe_consumed_tokens_total 51200
# HELP troupe_skipped_steps_total Steps without an update since training began.
# TYPE troupe_skipped_steps_total counter
troupe_skipped_steps_total 2
# HELP troupe_gradient_norm Norm of all gradients before clipping.
# TYPE troupe_gradient_norm gauge
troupe_gradient_norm 1.5
# HELP troupe_learning_rate Learning rate of the newest update.
# TYPE troupe_learning_rate gauge
troupe_learning_rate 0.0005
# HELP troupe_step_seconds Duration of the newest step.
# TYPE troupe_step_seconds gauge
troupe_step_seconds 0.5
# HELP troupe_tokens_per_second Tokens of the newest step per second.
# TYPE troupe_tokens_per_second gauge
troupe_tokens_per_second 512
# HELP troupe_flops_per_second Floating-point operations of the model per second, of all workers.
# TYPE troupe_flops_per_second gauge
troupe_flops_per_second 125000000000
# HELP troupe_matrix_rate_ratio MFU: operations of the model per second, divided by the rate of matrix products alone.
# TYPE troupe_matrix_rate_ratio gauge
troupe_matrix_rate_ratio 0.5
# HELP troupe_pipeline_seconds Time from the first to the last action of a step, measured and simulated.
# TYPE troupe_pipeline_seconds gauge
troupe_pipeline_seconds{kind="actual"} 0.25
troupe_pipeline_seconds{kind="planned"} 0.2
# HELP troupe_bubble_ratio Share of the stages' time in a step that they spend waiting, measured and simulated.
# TYPE troupe_bubble_ratio gauge
troupe_bubble_ratio{kind="actual"} 0.25
troupe_bubble_ratio{kind="planned"} 0.125
# HELP troupe_members Actors and processes of the run by state.
# TYPE troupe_members gauge
troupe_members{state="dead"} 0
troupe_members{state="running"} 0
troupe_members{state="starting"} 0
# HELP troupe_deaths_total Deaths of actors and processes by kind.
# TYPE troupe_deaths_total counter
troupe_deaths_total{member="node"} 0
troupe_deaths_total{member="stage"} 0
# HELP troupe_events_total Events of the run's log.
# TYPE troupe_events_total counter
troupe_events_total{event="given up"} 0
troupe_events_total{event="move"} 0
troupe_events_total{event="not finite"} 0
troupe_events_total{event="replaced"} 0
troupe_events_total{event="rerun"} 0
troupe_events_total{event="restart"} 0
troupe_events_total{event="straggler"} 0
troupe_events_total{event="wrong bits"} 0
# HELP troupe_restarts_total Restarts, moves and reruns by source of the state.
# TYPE troupe_restarts_total counter
troupe_restarts_total{source="disk"} 0
troupe_restarts_total{source="estate"} 0
troupe_restarts_total{source="keeper"} 0
troupe_restarts_total{source="local disk"} 0
troupe_restarts_total{source="start"} 0
# HELP troupe_recovery_seconds_total Total time from a failure until the next step began, of restarts, moves and reruns.
# TYPE troupe_recovery_seconds_total counter
troupe_recovery_seconds_total 0
# HELP troupe_corruptions_total Detected corruptions by verdict.
# TYPE troupe_corruptions_total counter
troupe_corruptions_total{verdict="irreproducible"} 0
troupe_corruptions_total{verdict="outvoted"} 0
troupe_corruptions_total{verdict="persistent"} 0
troupe_corruptions_total{verdict="transient"} 0
# HELP troupe_stragglers_total Workers found slow, by cause.
# TYPE troupe_stragglers_total counter
troupe_stragglers_total{cause="compute"} 0
troupe_stragglers_total{cause="input"} 0
troupe_stragglers_total{cause="link"} 0
# HELP troupe_warnings_total Warnings and errors of the log, without events.
# TYPE troupe_warnings_total counter
troupe_warnings_total 0
# HELP troupe_saves_total Checkpoints begun, written and failed.
# TYPE troupe_saves_total counter
troupe_saves_total{state="begun"} 0
troupe_saves_total{state="failed"} 0
troupe_saves_total{state="written"} 0
# HELP troupe_newest_record_time_seconds Time of the newest record, in Unix seconds.
# TYPE troupe_newest_record_time_seconds gauge
troupe_newest_record_time_seconds 1100
# HELP troupe_records_dropped_total Records dropped before these metrics could count them, mostly samples.
# TYPE troupe_records_dropped_total counter
troupe_records_dropped_total 0
# HELP troupe_viewers Open streams of viewers.
# TYPE troupe_viewers gauge
troupe_viewers 3
# HELP troupe_metrics_left_out Series omitted from this page because of its limits.
# TYPE troupe_metrics_left_out gauge
troupe_metrics_left_out 0
)";

/// The series of a page; requires that the page has no errors.
std::map<std::string, std::string> series_of(const std::string& page) {
  const exposition read(page);
  CAPTURE(read.faults);
  CHECK(read.faults.empty());
  return read.series;
}

/// Number of states of the run that are 1.
std::ptrdiff_t current_states(const std::map<std::string, std::string>& series) {
  return std::ranges::count_if(series, [](const auto& x) {
    return x.first.starts_with("troupe_run_state{") && x.second == "1";
  });
}

record_ring::maker object(std::string fields) {
  return [fields = std::move(fields)] { return "{" + fields + "}"; };
}

}  // namespace

TEST_CASE("the page keeps the experts of the newest counted step") {
  auto view = small_view();
  CHECK(metrics_text(view, {}).find("expert") == std::string::npos);
  view.take(R"({"kind":"step","iteration":101,"most_expert_rows":40,"least_expert_rows":3,
               "expert_entropy":0.75,"dropped_expert_rows":2})");
  view.take(R"({"kind":"step","iteration":102})");
  const auto page = metrics_text(view, {});
  for (const auto* line : {"troupe_expert_rows{kind=\"most\"} 40\n",
                           "troupe_expert_rows{kind=\"least\"} 3\n",
                           "troupe_expert_entropy_ratio 0.75\n",
                           "troupe_dropped_expert_rows 2\n"}) {
    CAPTURE(line);
    CHECK(page.find(line) != std::string::npos);
  }
}

TEST_CASE("a small run gives the expected page") {
  CHECK(metrics_text(small_view(), {.viewers = 3}) == page_of_small_view);
}

TEST_CASE("a process and its device have every value in base units") {
  auto view = small_view();
  view.take(process_sample);
  const auto found = series_of(metrics_text(view));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {R"(troupe_process_up{process="node:0"})", "1"},
           {R"(troupe_process_info{process="node:0",host="kiwi",role="node"})", "1"},
           {R"(troupe_process_uptime_seconds{process="node:0"})", "90"},
           {R"(troupe_process_cpu_seconds_total{process="node:0"})", "120.5"},
           {R"(troupe_process_resident_bytes{process="node:0"})", "1000"},
           {R"(troupe_process_peak_resident_bytes{process="node:0"})", "2000"},
           {R"(troupe_process_memory_bytes{process="node:0",kind="parameters"})", "400"},
           {R"(troupe_process_memory_bytes{process="node:0",kind="idle"})", "50"},
           {R"(troupe_process_leases{process="node:0"})", "3"},
           {R"(troupe_process_sent_bytes_total{process="node:0",peer="stage:0.1"})", "640"},
           {R"(troupe_process_sent_messages_total{process="node:0",peer="stage:0.1"})", "5"},
           {R"(troupe_process_received_bytes_total{process="node:0",peer="stage:0.1"})", "320"},
           {R"(troupe_process_received_messages_total{process="node:0",peer="stage:0.1"})", "4"},
           {R"(troupe_package_energy_joules_total{process="node:0",host="kiwi"})", "12.5"},
           {R"(troupe_device_power_watts{process="node:0",device="0"})", "250"},
           {R"(troupe_device_clock_hertz{process="node:0",device="0"})", "1500000000"},
           {R"(troupe_device_utilisation_ratio{process="node:0",device="0"})", "0.75"},
           {R"(troupe_device_temperature_celsius{process="node:0",device="0"})", "60"},
           {R"(troupe_device_memory_bytes{process="node:0",device="0"})", "4096"}}) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name) == value);
  }
}

TEST_CASE("a value that was not measured has no series") {
  auto view = small_view();
  view.take(
      R"({"kind":"process","at":1100,"name":"node:0","devices":[{"device":0,"name":"GPU"}]})");
  for (const auto& [name, value] : series_of(metrics_text(view))) {
    CHECK_FALSE(name.starts_with("troupe_device"));
    CHECK_FALSE(name.starts_with("troupe_package"));
    CHECK_FALSE(name.starts_with("troupe_viewers"));
  }
  const auto found = series_of(metrics_text(run_view()));
  CHECK(found.at("troupe_iteration") == "0");
  CHECK_FALSE(found.contains("troupe_gradient_norm"));
  CHECK_FALSE(found.contains("troupe_newest_record_time_seconds"));
}

TEST_CASE("a silent process is down, and a process that left has no series") {
  auto view = small_view();
  view.take(process_sample);
  view.take(R"({"kind":"state","at":1200,"state":"training"})");
  const auto silent = series_of(metrics_text(view));
  CHECK(silent.at(R"(troupe_process_up{process="node:0"})") == "0");
  CHECK_FALSE(silent.contains(R"(troupe_process_leases{process="node:0"})"));
  view.take(R"({"kind":"state","at":5000,"state":"training"})");
  CHECK_FALSE(series_of(metrics_text(view)).contains(R"(troupe_process_up{process="node:0"})"));
  view.take(R"({"kind":"process","at":5000,"name":"node:1"})");
  CHECK(view.processes.contains("node:1"));
  view.take(R"({"kind":"member","at":5001,"who":"node:1","state":"left"})");
  CHECK_FALSE(view.processes.contains("node:1"));
}

TEST_CASE("exactly one state of the run is 1, even if it is unknown") {
  auto view = small_view();
  view.take(R"({"kind":"state","at":1200,"state":"resting"})");
  const auto resting = series_of(metrics_text(view));
  CHECK(resting.at(R"(troupe_run_state{state="resting"})") == "1");
  CHECK(current_states(resting) == 1);
  view.take(R"({"kind":"end","at":1300,"exit_code":3,"reason":"no process is left"})");
  const auto ended = series_of(metrics_text(view));
  CHECK(ended.at(R"(troupe_run_state{state="ended"})") == "1");
  CHECK(current_states(ended) == 1);
  CHECK_FALSE(ended.contains(R"(troupe_run_state{state="resting"})"));
  CHECK(ended.at("troupe_run_exit_code") == "3");
}

TEST_CASE("events are counted by kind, source, verdict and cause") {
  auto view = small_view();
  for (const auto* record :
       {R"({"kind":"member","who":"stage:0.1","state":"dead"})",
        R"({"kind":"member","who":"stage:0.0","state":"dead"})",
        R"({"kind":"member","who":"stage:0.0","state":"running"})",
        R"({"kind":"event","event":"restart","state_from":"keeper","seconds":0.5})",
        R"({"kind":"event","event":"move","state_from":"keeper","seconds":1})",
        R"({"kind":"event","event":"restart","state_from":"disk","seconds":0.25})",
        R"({"kind":"event","event":"replaced","who":"loader"})",
        R"({"kind":"event","event":"wrong bits","verdict":"transient"})",
        R"({"kind":"event","event":"straggler","verdict":"link"})",
        R"({"kind":"event","event":"straggler","verdict":"over"})",
        R"({"kind":"event"})",
        R"({"kind":"warning","text":"slow disk"})",
        R"({"kind":"save","iteration":50,"state":"begun"})",
        R"({"kind":"save","iteration":50,"state":"written","seconds":2.5})",
        R"({"kind":"save","iteration":100,"state":"begun"})",
        R"({"kind":"save","iteration":100,"state":"failed"})"})
    view.take(record);
  const auto found = series_of(metrics_text(view));
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{R"(troupe_deaths_total{member="stage"})", "2"},
                                          {R"(troupe_members{state="dead"})", "1"},
                                          {R"(troupe_members{state="running"})", "1"},
                                          {R"(troupe_events_total{event="restart"})", "2"},
                                          {R"(troupe_events_total{event="move"})", "1"},
                                          {R"(troupe_events_total{event="replaced"})", "1"},
                                          {R"(troupe_events_total{event="straggler"})", "2"},
                                          {R"(troupe_events_total{event="unknown"})", "1"},
                                          {R"(troupe_restarts_total{source="keeper"})", "2"},
                                          {R"(troupe_restarts_total{source="disk"})", "1"},
                                          {"troupe_recovery_seconds_total", "1.75"},
                                          {R"(troupe_corruptions_total{verdict="transient"})", "1"},
                                          {R"(troupe_stragglers_total{cause="link"})", "1"},
                                          {"troupe_warnings_total", "1"},
                                          {R"(troupe_saves_total{state="begun"})", "2"},
                                          {R"(troupe_saves_total{state="written"})", "1"},
                                          {R"(troupe_saves_total{state="failed"})", "1"},
                                          {"troupe_save_iteration", "50"},
                                          {"troupe_save_seconds", "2.5"}}) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name) == value);
  }
  CHECK_FALSE(found.contains(R"(troupe_stragglers_total{cause="over"})"));
}

TEST_CASE("a stage's busy share is that of its actions in the timeline") {
  auto view = small_view();
  view.take(R"({"kind":"timeline","iteration":100,"executed_ms":10,"rows":[
      {"rank":0,"executed":[["0F0",0,2],["0I0",4,6],["0W0",6,7]]},
      {"rank":1,"executed":[["1F0",2,12],["1I0",12,11]]},{"rank":2}]})");
  const auto found = series_of(metrics_text(view));
  CHECK(found.at(R"(troupe_stage_busy_ratio{stage="0"})") == "0.5");
  CHECK(found.at(R"(troupe_stage_busy_ratio{stage="1"})") == fmt::format("{:.16g}", 10.0 / 12));
  CHECK(found.at(R"(troupe_stage_busy_ratio{stage="2"})") == "0");
}

TEST_CASE("several losses have a value each, and one for their sum") {
  auto view = small_view();
  view.take(R"({"kind":"step","iteration":101,"lm_loss":4,"sop_loss":1,"loss":4.5})");
  view.take(R"({"kind":"validation","iteration":101,"validation_loss":5,"validation_sop_loss":2})");
  const auto found = series_of(metrics_text(view));
  CHECK(found.at(R"(troupe_loss{loss="lm"})") == "4");
  CHECK(found.at(R"(troupe_loss{loss="sop"})") == "1");
  CHECK(found.at(R"(troupe_loss{loss="sum"})") == "4.5");
  CHECK(found.at(R"(troupe_loss{loss="validation"})") == "5");
  CHECK(found.at(R"(troupe_loss{loss="validation_sop"})") == "2");
}

TEST_CASE("values that are not finite are written as NaN and Inf") {
  auto view = small_view();
  view.take(R"({"kind":"step","at":1101,"iteration":101,"lm_loss":null,"grad_norm":null})");
  view.learning_rate = std::numeric_limits<double>::infinity();
  view.step_ms = -std::numeric_limits<double>::infinity();
  const auto found = series_of(metrics_text(view));
  CHECK(found.at(R"(troupe_loss{loss="lm"})") == "Nan");
  CHECK(found.at("troupe_gradient_norm") == "Nan");
  CHECK(found.at("troupe_learning_rate") == "+Inf");
  CHECK(found.at("troupe_step_seconds") == "-Inf");
}

TEST_CASE("hostile names cannot leave their label") {
  run_view view;
  view.take_run(R"({"id":"a\"} 1\ntroupe_evil 2","name":"back\\slash","program":"\u0007\u0000ä"})");
  view.take(R"({"kind":"process","name":"x\",y=\"","sent":[{"peer":"\\\"\n","bytes":1}]})");
  view.take(R"({"kind":"step","iteration":1,"a\nb_loss":1})");
  const auto found = series_of(metrics_text(view));
  CHECK(found.contains(
      R"re(troupe_run_info{run="a\"} 1\ntroupe_evil 2",name="back\\slash",version=")re"
      "\xef\xbf\xbd\xef\xbf\xbd"
      R"re(ä"})re"));
  CHECK(found.contains(R"re(troupe_process_sent_bytes_total{process="x\",y=\"",peer="\\\"\n"})re"));
  CHECK(found.contains(R"re(troupe_loss{loss="a\nb"})re"));
  CHECK_FALSE(found.contains("troupe_evil"));
}

TEST_CASE("the length of labels and the number of series are bounded, and the rest is counted") {
  metrics_page page({.series = 3, .label_bytes = 5});
  page.gauge("troupe_a", "A.");
  for (const auto* name : {"first", "second", "secon", "third", "fourth"})
    page.add(1, {{"name", name}});
  page.counter("troupe_b_total", "B.").add(2);
  page.gauge("troupe_empty", "No series.");
  CHECK(page.left_out() == 2);
  CHECK(page.text()
        == "# HELP troupe_a A.\n# TYPE troupe_a gauge\ntroupe_a{name=\"first\"} 1\n"
           "troupe_a{name=\"secon\"} 1\ntroupe_a{name=\"third\"} 1\n"
           "# HELP troupe_b_total B.\n# TYPE troupe_b_total counter\ntroupe_b_total 2\n");

  auto view = small_view();
  for (int i = 0; i < 20; ++i)
    view.take(fmt::format(R"({{"kind":"process","at":1100,"name":"node:{}"}})", i));
  const auto found = series_of(metrics_text(view, {.most = {.series = 10}}));
  CHECK(found.contains(R"(troupe_process_up{process="node:0"})"));
  CHECK(std::ranges::count_if(
            found, [](const auto& x) { return x.first.starts_with("troupe_process_up{"); })
        == 10);
  CHECK(found.at("troupe_metrics_left_out") == "70");  // ten each of seven metrics
}

TEST_CASE("a label is cut between characters") {
  CHECK(label_text("aä", 2) == "a");
  CHECK(label_text("aä", 3) == "aä");
  CHECK(label_text("a\tb\x7f", 100) == "a\xef\xbf\xbd"
                                       "b\xef\xbf\xbd");
  CHECK(label_text("a\nb", 100) == "a\nb");
  CHECK(label_text("", 0).empty());
}

TEST_CASE("names that records bring are bounded") {
  run_view view;
  for (int i = 0; i < 3000; ++i)
    view.take(fmt::format(R"({{"kind":"event","event":"e{}","seconds":-1}})", i));
  CHECK(view.counts.events.size() == run_view::most_names + 1);
  CHECK(view.counts.events.at("other") == 3000 - run_view::most_names);
}

TEST_CASE("the reader of these tests finds errors") {
  const std::string head = "# HELP a A.\n# TYPE a gauge\n";
  CHECK(exposition(head + "a 1\na{b=\"c\"} 2e-5\n").faults.empty());
  for (const auto* rest : {"a 1",
                           "a one\n",
                           "a{b=c} 1\n",
                           "a{b=\"\\x\"} 1\n",
                           "a{b=\"c\"d\"} 1\n",
                           "a 1\na 2\n",
                           "b 1\n",
                           "1a 1\n",
                           "a  1\n",
                           "# TYPE a gauge\n",
                           "# HELP a A.\n",
                           "# HELP b \\x\n",
                           "# TYPE b number\n",
                           "# HELP b_total B.\n# TYPE b_total gauge\nb_total 1\n",
                           "# HELP b B.\n# TYPE b counter\nb 1\n",
                           "# HELP b_total B.\n# TYPE b_total counter\nb_total -1\n",
                           "# HELP b_total B.\n# TYPE b_total counter\nb_total NaN\n",
                           "a 1\n# HELP b B.\n# TYPE b gauge\nb 1\na{c=\"d\"} 1\n",
                           "# HELP b B.\nb 1\n# TYPE b gauge\n"}) {
    CAPTURE(rest);
    CHECK_FALSE(exposition(head + rest).faults.empty());
  }
}

TEST_CASE("a source counts every event once, and keeps the count after the ring dropped it") {
  const auto ring = std::make_shared<record_ring>(3, ring_capacities{.facts = 4});
  metrics_source source(ring, R"({"id":"ab12"})");
  const auto restarts
      = [&] { return series_of(source.text()).at(R"(troupe_events_total{event="restart"})"); };
  CHECK(restarts() == "0");
  for (int i = 1; i <= 20; ++i) {
    ring->add("event", object(R"("event":"restart")"));
    CHECK(source.catch_up());
  }
  CHECK(restarts() == "20");
  CHECK(restarts() == "20");
  for (int i = 0; i < 10; ++i)
    ring->add("event", object(R"("event":"restart")"));
  CHECK(restarts() == "24");
  CHECK(series_of(source.text()).at("troupe_records_dropped_total") == "6");
}

TEST_CASE("a source keeps members and processes whose records the queues dropped") {
  const auto ring = std::make_shared<record_ring>(3, ring_capacities{.facts = 4, .samples = 2});
  ring->add_newest("member", "stage:0.0", object(R"("who":"stage:0.0","state":"running")"));
  ring->add_newest("member", "stage:0.1", object(R"("who":"stage:0.1","state":"dead")"));
  for (int i = 0; i < 4; ++i)
    ring->add_sample(
        "process", fmt::format("node:{}", i), 100, object(fmt::format(R"("name":"node:{}")", i)));
  for (int i = 1; i <= 10; ++i)
    ring->add("step", object(fmt::format(R"("iteration":{})", i)));
  metrics_source source(ring, R"({"id":"ab12"})");
  const auto found = series_of(source.text(2));
  CHECK(found.at(R"(troupe_members{state="running"})") == "1");
  CHECK(found.at(R"(troupe_deaths_total{member="stage"})") == "1");
  for (int i = 0; i < 4; ++i)
    CHECK(found.contains(fmt::format("troupe_process_up{{process=\"node:{}\"}}", i)));
  CHECK(found.at("troupe_iteration") == "10");
  CHECK(found.at("troupe_viewers") == "2");
  CHECK(series_of(source.text()).at(R"(troupe_deaths_total{member="stage"})") == "1");
}

TEST_CASE("a source catches up in bounded parts") {
  const auto ring = std::make_shared<record_ring>(3, ring_capacities{.facts = 20000});
  for (int i = 1; i <= 17000; ++i)
    ring->add("step", object(fmt::format(R"("iteration":{})", i)));
  metrics_source source(ring, "{}");
  CHECK_FALSE(source.catch_up());
  CHECK(source.view().iteration == 16000);
  CHECK(source.catch_up());
  CHECK(source.view().iteration == 17000);
  CHECK(series_of(metrics_source(ring, "{}").text()).at("troupe_iteration") == "17000");
}

}  // namespace troupe::tests
