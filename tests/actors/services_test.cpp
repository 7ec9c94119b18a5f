// The loader, the checkpointer and the monitor, each alone.

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/loader/loader.hpp"
#include "actors/monitor/monitor.hpp"
#include "runtime/core/log.hpp"
#include "runtime/telemetry/record_ring.hpp"
#include "tests/support/deterministic.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;

namespace {

struct serving {
  explicit serving(const runtime::training_job& job) : prepared(tests::without_threads(job)) {
    asking = system.keep(system.home().spawn([this](caf::event_based_actor* self) -> caf::behavior {
      return {[this, self](int) { next(self); }};
    }));
  }
  std::shared_ptr<const actors::node_context> context() const { return prepared->node; }
  std::shared_ptr<const actors::opened_job> job() const {
    return prepared->node->jobs->open(prepared->description);
  }
  messages::loader_actor loader() {
    auto out
        = system.keep(system.home().spawn(actors::loader, context(), runtime::generation_id{}));
    context()->messages->introduce(out, "loader");
    return out;
  }
  messages::checkpointer_actor checkpointer() {
    return system.keep(system.home().spawn(
        actors::checkpointer,
        messages::spawn_checkpointer{
            first_generation, prepared->description, system.listener(supervisor)},
        job(),
        context(),
        token));
  }
  messages::monitor_actor monitor() {
    return system.keep(
        system.home().spawn(actors::monitor,
                            messages::spawn_monitor{first_generation, prepared->description},
                            job(),
                            context()));
  }
  template <class Answer, class Handle, class Request>
  std::optional<Answer> ask(const Handle& who, const Request& x) {
    std::optional<Answer> out;
    next = [&](caf::event_based_actor* self) {
      self->request(who, caf::infinite, x)
          .then([&](const Answer& y) { out = y; }, [](const caf::error&) {});
    };
    system.tell(asking, 1);
    return out;
  }
  /// All shards of an array of one element.
  std::vector<runtime::tensor_shard<runtime::ticket>> shards(const std::string& name,
                                                             runtime::generation_id generation) {
    const runtime::shape extents{1};
    runtime::tensor one(prepared->node->pool.allocate(sizeof(float)), runtime::dtype::f32, extents);
    *one.data<float>() = 0.5F;
    return {{name,
             extents,
             runtime::whole(extents),
             prepared->node->transport->deposit(std::move(one), generation)}};
  }
  messages::snapshot snapshot(int rank, runtime::generation_id generation = first_generation) {
    const std::string name = rank == 0 ? "w" : "v";
    return {generation,
            runtime::step_id(3),
            rank,
            shards(name, generation),
            shards("exp_avg." + name, generation)};
  }

  tests::heard_by<messages::supervisor_actor> supervisor;
  std::function<void(caf::event_based_actor*)> next;
  runtime::cancel_token token;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  caf::actor asking;
};

messages::request_batch request(std::uint64_t microbatch) {
  return {.at = {.generation = first_generation, .step = runtime::step_id(1)},
          .microbatch = microbatch,
          .names = {"tokens", "positions", "samples", "documents"}};
}

messages::committed commit_of(std::uint64_t iteration) {
  messages::committed out;
  out.report.iteration = iteration;
  out.report.loss = 2;
  out.report.elapsed_ms = 1;
  return out;
}

}  // namespace

TEST_CASE("DATA-1: the loader's answer depends on the request only", "[actors]") {
  serving it(tests::tiny_job(1, 1));
  const auto loader = it.loader();
  const auto tokens = [&](std::uint64_t microbatch) {
    const auto answer = it.ask<messages::batch_ready>(loader, request(microbatch));
    REQUIRE(answer);
    CHECK(answer->at == request(microbatch).at);
    const auto batch = runtime::redeem(*it.prepared->node->transport, answer->data);
    CHECK_FALSE(batch.has("labels"));
    const auto all = batch.at("tokens").elements<std::int32_t>();
    return std::vector<std::int32_t>(all.begin(), all.end());
  };
  const auto first = tokens(0), second = tokens(1);
  CHECK(first != second);
  CHECK(tokens(1) == second);
  CHECK(tokens(0) == first);
}

namespace {

/// Wraps a source and counts its reads.
class counted_source final : public runtime::batch_source {
 public:
  explicit counted_source(std::shared_ptr<const runtime::batch_source> from)
      : from_(std::move(from)) {}
  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    ++read_;
    return from_->microbatch(at);
  }
  int read() const { return read_; }

 private:
  std::shared_ptr<const runtime::batch_source> from_;
  mutable int read_ = 0;
};

}  // namespace

TEST_CASE("a loader reads each batch of two interleaved steps once and holds at most two steps",
          "[actors]") {
  serving it(tests::tiny_job(1, 1));
  const auto source = std::make_shared<counted_source>(it.prepared->node->training);
  it.prepared->node->training = source;
  const auto loader = it.loader();
  const auto ask_for = [&](std::uint64_t consumed) {
    auto x = request(0);
    x.consumed = consumed;
    REQUIRE(it.ask<messages::batch_ready>(loader, x));
  };
  for (int who = 0; who < 3; ++who) {
    ask_for(0);
    ask_for(4);
  }
  CHECK(source->read() == 2);
  ask_for(8);
  ask_for(4);
  CHECK(source->read() == 3);
  ask_for(0);
  CHECK(source->read() == 4);
}

TEST_CASE("a loader survives late requests of an ended generation", "[actors]") {
  serving it(tests::tiny_job(1, 1));
  const auto loader = it.loader();
  const tests::ending end(loader);
  it.context()->transport->end_generation(first_generation);
  CHECK_FALSE(it.ask<messages::batch_ready>(loader, request(0)));
  CHECK_FALSE(end.has_come());
  auto next = request(0);
  next.at.generation = runtime::generation_id(2);
  CHECK(it.ask<messages::batch_ready>(loader, next));
}

TEST_CASE("a failing loader ends with a reason that names it", "[actors]") {
  auto job = tests::tiny_job(1, 1);
  job.faults.fault = "loader@1";
  serving it(job);
  const auto loader = it.loader();
  const tests::ending end(loader);
  CHECK_FALSE(it.ask<messages::batch_ready>(loader, request(0)));
  CHECK_THAT(end.text(), ContainsSubstring("loader: the fault"));
}

namespace {

/// A source with failing reads.
class broken_source final : public runtime::batch_source {
 public:
  runtime::bundle microbatch(const runtime::microbatch_address&) const override {
    throw runtime::io_error("the disk is gone");
  }
};

}  // namespace

TEST_CASE("DATA-3: a loader that cannot read the current step ends and names the step",
          "[actors]") {
  serving it(tests::tiny_job(1, 1));
  it.prepared->node->training = std::make_shared<broken_source>();
  const auto loader = it.loader();
  const tests::ending end(loader);
  std::vector<messages::batch_failed> failed;
  const auto stage = it.system.keep(it.system.home().spawn([&](caf::event_based_actor* self) {
    return caf::behavior{
        [self, loader](const messages::request_batch& x) { self->send(loader, x); },
        [&failed](const messages::batch_failed& x) { failed.push_back(x); }};
  }));
  auto x = request(0);
  x.ahead = true;
  it.system.tell(stage, x);
  CHECK_FALSE(end.has_come());
  REQUIRE(failed.size() == 1);
  CHECK(failed.front().at == x.at);
  x.ahead = false;
  it.system.tell(stage, x);
  CHECK(failed.size() == 1);
  CHECK(end.is(messages::ec::refused));
  CHECK(end.text() == "loader: the data of iteration 1: the disk is gone");
}

TEST_CASE(
    "DATA-4: a loader gives tensors of any type and length, and refuses names that the data "
    "lack",
    "[actors]") {
  serving it(tests::tiny_job(1, 1));
  it.prepared->node->training
      = std::make_shared<runtime::dataset_source>(std::make_shared<tests::pictures>(),
                                                  runtime::batch_layout{.micro_batch_size = 2},
                                                  runtime::memory_pool());
  const auto loader = it.loader();
  const tests::ending end(loader);
  auto x = request(1);
  x.names = {"pixels", "documents", "number"};
  const auto answer = it.ask<messages::batch_ready>(loader, x);
  REQUIRE(answer);
  CHECK(answer->data.names == x.names);
  const auto found = runtime::redeem(*it.prepared->node->transport, answer->data);
  const auto whole = it.prepared->node->training->microbatch({.microbatch = 1});
  for (const auto& name : x.names) {
    const auto &is = found.at(name), &should = whole.at(name);
    CHECK(is.type() == should.type());
    CHECK(is.extents() == should.extents());
    CHECK(std::equal(is.raw(), is.raw() + is.bytes(), should.raw()));
  }
  x.names = {"pixels", "audio"};
  CHECK_FALSE(it.ask<messages::batch_ready>(loader, x));
  CHECK(end.is(messages::ec::refused));
  CHECK(end.text()
        == "loader: the data of iteration 1: cannot read 'audio' of a micro-batch, which has only "
           "'pixels', 'caption', 'number', 'samples', 'documents', 'document_samples'; train this "
           "model on data of its family");
}

TEST_CASE("a checkpointer saves once all parts have arrived, in any order", "[actors]") {
  const bool order_first = GENERATE(true, false);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 1);
  job.checkpoints.save = folder.path();
  serving it(job);
  const auto checkpointer = it.checkpointer();
  const messages::save order{first_generation, runtime::step_id(3), 24, 2, {}, {}};
  auto& saved = it.supervisor.of<messages::saved>();
  if (order_first)
    it.system.tell(checkpointer, order);
  it.system.tell(checkpointer, it.snapshot(1));
  it.system.tell(checkpointer, it.snapshot(1, runtime::generation_id(2)));
  CHECK(saved.empty());
  it.system.tell(checkpointer, it.snapshot(0));
  if (!order_first) {
    CHECK(saved.empty());
    it.system.tell(checkpointer, order);
  }
  REQUIRE(saved.size() == 1);
  CHECK(saved.front().step == runtime::step_id(3));
  const auto found = runtime::latest_checkpoint(folder.path());
  REQUIRE(found.folder);
  const runtime::checkpoint_reader checkpoint(*found.folder);
  CHECK(checkpoint.manifest().consumed_samples == 24);
  CHECK(checkpoint.has("w"));
  CHECK(checkpoint.has("v"));
}

TEST_CASE("a checkpointer drops parts of dead ranks and serves their successors", "[actors]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(1, 1);
  job.checkpoints.save = folder.path();
  serving it(job);
  const auto checkpointer = it.checkpointer();
  const tests::ending end(checkpointer);
  const auto part = it.snapshot(0), late = it.snapshot(0);
  it.prepared->node->transport->end_generation(first_generation);
  it.system.tell(checkpointer, part);
  it.system.tell(checkpointer, messages::save{first_generation, runtime::step_id(3), 8, 1, {}, {}});
  CHECK(it.supervisor.of<messages::saved>().empty());
  CHECK(it.supervisor.of<messages::save_failed>().empty());
  it.system.tell(checkpointer, messages::abandon{first_generation});
  CHECK(it.supervisor.of<messages::abandoned>().size() == 1);
  const runtime::generation_id second{2};
  it.system.tell(checkpointer, late);  // of the ended generation: dropped
  it.system.tell(checkpointer, messages::save{second, runtime::step_id(3), 8, 1, {}, {}});
  CHECK(it.supervisor.of<messages::saved>().empty());
  it.system.tell(checkpointer, it.snapshot(0, second));
  CHECK(it.supervisor.of<messages::saved>().size() == 1);
  CHECK_FALSE(end.has_come());
}

TEST_CASE("a checkpointer does not mix parts of two attempts at the same step", "[actors]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 1);
  job.checkpoints.save = folder.path();
  serving it(job);
  const auto checkpointer = it.checkpointer();
  const tests::ending end(checkpointer);
  const auto of_attempt = [&](int rank, std::uint64_t attempt) {
    auto out = it.snapshot(rank);
    out.attempt = attempt;
    return out;
  };
  const auto old = of_attempt(0, 1);
  it.system.tell(checkpointer, old);
  for (const auto& x : old.parameters)  // its stage was asked again
    it.prepared->node->transport->take_back(std::array{x.elements});
  it.system.tell(checkpointer,
                 messages::save{first_generation, runtime::step_id(3), 8, 2, {}, {}, 2});
  it.system.tell(checkpointer, of_attempt(1, 2));
  CHECK(it.supervisor.of<messages::saved>().empty());
  it.system.tell(checkpointer, of_attempt(0, 2));
  REQUIRE(it.supervisor.of<messages::saved>().size() == 1);
  CHECK(it.supervisor.of<messages::saved>().front().attempt == 2);
  CHECK_FALSE(end.has_come());
}

TEST_CASE("a monitor answers after all earlier reports are written", "[actors]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(1, 1);
  job.watch.csv_file = folder / "log.csv";
  serving it(job);
  const auto monitor = it.monitor();
  for (std::uint64_t i = 1; i <= 3; ++i)
    it.system.tell(monitor, commit_of(i));
  REQUIRE(it.ask<messages::concluded>(monitor, messages::conclude{}));
  const auto table = runtime::read_text(folder / "log.csv");
  CHECK(std::count(table.begin(), table.end(), '\n') == 4);
}

TEST_CASE("viewers get an event once: its line in the log is not another warning", "[actors]") {
  const serving it(tests::tiny_job(1, 1));
  const auto records = std::make_shared<runtime::record_ring>(1);
  const messages::happened slow{.event = {.iteration = 3,
                                          .kind = "straggler",
                                          .who = "stage:0.1",
                                          .why = "it waited",
                                          .verdict = "link"}};
  std::vector<std::string> warnings;
  runtime::watch_warnings(
      [&](runtime::severity, std::string_view text) { warnings.emplace_back(text); });
  actors::monitor_book(it.prepared->description, it.job(), {}, records).add(slow);
  CHECK(warnings.empty());
  const auto shown = records->since({1, 0}, 10, 1 << 20).records;
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].kind == "event");
  CHECK_THAT(shown[0].text, ContainsSubstring("it waited"));
  actors::monitor_book(it.prepared->description, it.job()).add(slow);  // there are no viewers
  runtime::watch_warnings({});
  CHECK(warnings == std::vector<std::string>{"stage:0.1 is slow: link (it waited)"});
}

TEST_CASE("a failing monitor ends with a reason that names it", "[actors]") {
  auto job = tests::tiny_job(1, 1);
  job.faults.fault = "monitor@2";
  serving it(job);
  const auto monitor = it.monitor();
  const tests::ending end(monitor);
  it.system.tell(monitor, commit_of(1));
  CHECK_FALSE(end.has_come());
  it.system.tell(monitor, commit_of(2));
  CHECK(end.is(ec::protocol_violated));
  CHECK_THAT(end.text(), ContainsSubstring("monitor: the fault"));
}
