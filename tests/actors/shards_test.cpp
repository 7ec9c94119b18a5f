// The checkpointer and the shard writers of two processes, which write a checkpoint together.

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/checkpointer/collected_shards.hpp"
#include "actors/shard_writer/shard_writer.hpp"
#include "runtime/checkpoint/save_lock.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/deterministic.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <map>
#include <set>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::first_generation;

namespace {

const runtime::step_id third{3};

/// A checkpointer, and two processes with the ranks of one stage each.
struct saving {
  explicit saving(const std::filesystem::path& save, int processes = 2) {
    auto job = tests::tiny_job(2, 1);
    job.layout.processes = processes;
    job.checkpoints.save = save;
    prepared = tests::without_threads(job);
    before_write([this] {
      if (refuses)
        throw runtime::io_error("the disk of this test refuses");
    });
    spawn_checkpointer();
  }

  void before_write(std::function<void()> look) {
    prepared->node->env.write_shard
        = [look = std::move(look)](const auto& folder, const auto& file, auto shards) {
            look();
            return runtime::write_shard_file(folder, file, shards);
          };
  }

  void spawn_checkpointer() {
    checkpointer = system.keep(system.home().spawn(
        actors::checkpointer,
        messages::spawn_checkpointer{
            first_generation, prepared->description, system.listener(supervisor)},
        prepared->node->jobs->open(prepared->description),
        std::shared_ptr<const actors::node_context>(prepared->node),
        token));
    end.emplace(checkpointer);
  }

  /// A real shard writer of the process.
  messages::shard_writer_actor writer(int process) {
    return system.keep(system.home().spawn(
        actors::shard_writer,
        messages::spawn_shard_writer{first_generation, prepared->description, process, true},
        std::shared_ptr<const actors::node_context>(prepared->node),
        runtime::cancel_token()));
  }
  void use(int process, const messages::shard_writer_actor& x) {
    system.tell(checkpointer, messages::use_shard_writer{first_generation, process, x});
  }
  /// Replaces both processes' writers; their orders are in `told`.
  void play_writers() {
    for (const int p : {0, 1})
      use(p, system.listener(told));
  }
  void use_writers() {
    for (const int p : {0, 1})
      use(p, writer(p));
  }

  std::vector<runtime::tensor_shard<runtime::ticket>> shards(const std::string& name) {
    const runtime::shape extents{1};
    runtime::tensor one(prepared->node->pool.allocate(sizeof(float)), runtime::dtype::f32, extents);
    *one.data<float>() = 0.5F;
    return {{name,
             extents,
             runtime::whole(extents),
             prepared->node->transport->deposit(std::move(one), first_generation)}};
  }
  void save(std::uint64_t attempt = 1) {
    system.tell(checkpointer, messages::save{first_generation, third, 24, 2, {}, {}, attempt});
    for (const int rank : {1, 0}) {
      const std::string name = rank == 0 ? "w" : "v";
      last[rank]
          = {first_generation, third, rank, shards(name), shards("exp_avg." + name), attempt};
      system.tell(checkpointer, last[rank]);
    }
  }
  /// Lets a real writer answer the order.
  void answer(const messages::write_shards& order) {
    const auto to = order.checkpointer;
    system.tell(writer(order.ranks.front().number - 1), order);
  }
  template <class Message>
  std::size_t heard() {
    return supervisor.of<Message>().size();
  }

  tests::heard_by<messages::supervisor_actor> supervisor;
  tests::heard_by<messages::shard_writer_actor> told;
  runtime::cancel_token token;
  bool refuses = false;
  std::map<int, messages::snapshot> last;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::checkpointer_actor checkpointer;
  std::optional<tests::ending> end;
};

/// Contents of all files of the newest checkpoint, by name.
std::map<std::string, std::string> bytes_in(const std::filesystem::path& dir) {
  std::map<std::string, std::string> out;
  for (const auto& x : std::filesystem::directory_iterator(dir / runtime::iteration_folder(3)))
    out[x.path().filename().string()] = runtime::read_text(x.path());
  return out;
}

std::set<std::string> names_in(const std::filesystem::path& dir) {
  std::set<std::string> out;
  for (const auto& x : std::filesystem::directory_iterator(dir))
    out.insert(x.path().filename().string());
  return out;
}

messages::shards_refused refusal_of(const messages::write_shards& x, int process, bool gone) {
  return {x.generation, x.step, x.attempt, process, gone, gone ? "" : "No space left on device"};
}

}  // namespace

TEST_CASE("two processes write the same bytes as one", "[actors]") {
  const tests::scratch_folder one, two;
  saving alone(one.path(), 1), both(two.path());
  both.use_writers();
  for (auto* const x : {&alone, &both}) {
    x->save();
    CHECK(x->heard<messages::saved>() == 1);
    CHECK(x->prepared->node->transport->leased() == 0);
  }
  const auto expected = bytes_in(one.path());
  CHECK(expected.size() == 5);
  CHECK(bytes_in(two.path()) == expected);
  CHECK(names_in(two.path()) == names_in(one.path()));
  CHECK_NOTHROW(runtime::open_checkpoint(two / runtime::iteration_folder(3)));
}

TEST_CASE("SHARDS-1: a checkpoint is visible only after every process has reported durable shards",
          "[actors]") {
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.play_writers();
  it.save();
  auto& orders = it.told.of<messages::write_shards>();
  REQUIRE(orders.size() == 2);
  CHECK(orders[0].parts == 2);
  it.answer(orders[0]);
  CHECK(it.heard<messages::saved>() == 0);
  CHECK_FALSE(runtime::latest_checkpoint(folder.path()).folder);
  const std::filesystem::path staged = orders[1].folder;
  CHECK(std::filesystem::exists(staged / runtime::shard_file("model", 1, 2)));
  it.answer(orders[1]);
  CHECK(it.heard<messages::saved>() == 1);
  CHECK(runtime::latest_checkpoint(folder.path()).folder);
  CHECK_FALSE(std::filesystem::exists(staged));
}

TEST_CASE("SHARDS-1, -2: a manifest with missing or unacknowledged shards is refused", "[actors]") {
  const messages::save order{first_generation, third, 24, 2, {}, {}, 1};
  const std::vector<runtime::tensor_shard<runtime::ticket>> one
      = {{"w", {1}, runtime::whole({1}), {}}};
  actors::collected_shards shards(order,
                                  {{0, {first_generation, third, 0, one, one, 1}},
                                   {1, {first_generation, third, 1, one, one, 1}}},
                                  {2, 2});
  const messages::written_file file{8, "ab", {"cd"}};
  const auto answer = [&](int process, std::uint64_t attempt, messages::written_file model) {
    return shards.take(messages::shards_written{
        first_generation, third, attempt, process, {{process + 1, std::move(model), file}}});
  };
  CHECK(answer(0, 1, file));
  CHECK_BREAKS("SHARDS-1", shards.records());
  CHECK_FALSE(answer(1, 2, file));  // of another attempt
  CHECK_FALSE(answer(0, 1, file));  // a repeated answer
  CHECK_FALSE(answer(2, 1, file));  // an unknown rank
  CHECK(shards.awaited() == 1);
  CHECK_BREAKS("SHARDS-2",
               shards.take(messages::shards_written{first_generation, third, 1, 1, {}}));
  CHECK(answer(1, 1, {8, "ab", {}}));
  CHECK(shards.awaited() == 0);
  CHECK_BREAKS("SHARDS-2", shards.records());
}

TEST_CASE("a failed write is reported once all writers have stopped, and the next attempt succeeds",
          "[actors]") {
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.play_writers();
  it.save();
  auto& orders = it.told.of<messages::write_shards>();
  REQUIRE(orders.size() == 2);
  it.system.tell(it.checkpointer, refusal_of(orders[0], 0, false));
  CHECK(it.heard<messages::save_failed>() == 0);
  it.answer(orders[1]);
  REQUIRE(it.heard<messages::save_failed>() == 1);
  CHECK(it.supervisor.of<messages::save_failed>()[0].why == "No space left on device");
  CHECK_FALSE(runtime::latest_checkpoint(folder.path()).folder);
  const auto late = orders[0];
  for (const auto& [rank, x] : it.last)  // its stage frees it before the next snapshot
    for (const auto* const some : {&x.parameters, &x.moments})
      for (const auto& shard : *some)
        it.prepared->node->transport->take_back(std::array{shard.elements});
  it.save(2);
  it.answer(late);  // of the failed attempt; its files and folder are removed
  CHECK(it.heard<messages::saved>() == 0);
  REQUIRE(orders.size() == 4);
  it.answer(orders[2]);
  it.answer(orders[3]);
  CHECK(it.heard<messages::saved>() == 1);
  CHECK(names_in(folder.path())
        == std::set<std::string>{"iter_0000003", "latest_checkpointed_iteration.txt"});
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a shard writer reports the error with process and host, and continues", "[actors]") {
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.use_writers();
  it.refuses = true;
  it.save();
  REQUIRE(it.heard<messages::save_failed>() == 1);
  CHECK_THAT(it.supervisor.of<messages::save_failed>()[0].why,
             ContainsSubstring("process 0 on host '")
                 && ContainsSubstring("the disk of this test refuses"));
  it.refuses = false;
  it.save(2);
  CHECK(it.heard<messages::saved>() == 1);
}

TEST_CASE("a process that does not see the checkpoint folder reports it", "[actors]") {
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.play_writers();
  it.save();
  for (auto order : it.told.of<messages::write_shards>()) {
    order.folder = "/nowhere/of/this/host";
    it.answer(order);
  }
  REQUIRE(it.heard<messages::save_failed>() == 1);
  CHECK_THAT(it.supervisor.of<messages::save_failed>()[0].why,
             ContainsSubstring("process 0 on host '") && ContainsSubstring("/nowhere/of/this/host")
                 && ContainsSubstring("a folder that all processes of the run see"));
}

TEST_CASE("a save is abandoned once all writers answered or died, and leaves no partial checkpoint",
          "[actors]") {
  const bool dies = GENERATE(true, false);
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.play_writers();
  it.save();
  const auto orders = it.told.of<messages::write_shards>();
  REQUIRE(orders.size() == 2);
  it.system.tell(it.checkpointer, messages::abandon{first_generation});
  if (dies)
    it.use(0, {});
  else
    it.system.tell(it.checkpointer, refusal_of(orders[0], 0, true));
  CHECK(it.heard<messages::abandoned>() == 0);
  it.answer(orders[1]);
  CHECK(it.heard<messages::abandoned>() == 1);
  CHECK(it.heard<messages::saved>() == 0);
  CHECK(it.heard<messages::save_failed>() == 0);
  CHECK_FALSE(runtime::latest_checkpoint(folder.path()).folder);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a complete checkpoint is published before a save is abandoned", "[actors]") {
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.play_writers();
  it.save();
  const auto orders = it.told.of<messages::write_shards>();
  REQUIRE(orders.size() == 2);
  it.system.tell(it.checkpointer, messages::abandon{first_generation});
  it.answer(orders[0]);
  it.answer(orders[1]);
  CHECK(it.heard<messages::saved>() == 1);
  CHECK(it.heard<messages::abandoned>() == 1);
}

TEST_CASE("the death of a shard writer fails the save, which is tried again", "[actors]") {
  const tests::scratch_folder folder;
  saving it(folder.path());
  it.play_writers();
  it.save();
  it.use(0, {});
  it.answer(it.told.of<messages::write_shards>().at(1));
  REQUIRE(it.heard<messages::save_failed>() == 1);
  CHECK_THAT(it.supervisor.of<messages::save_failed>()[0].why,
             ContainsSubstring("writes the shards of a process has died"));
  it.use_writers();
  it.save(2);
  CHECK(it.heard<messages::saved>() == 1);
}

TEST_CASE(
    "a shard writer that dies between two files leaves nothing, and the next attempt succeeds",
    "[actors]") {
  const tests::scratch_folder one, two;
  saving alone(one.path(), 1), it(two.path());
  alone.save();
  actors::inject(*it.prepared->node, runtime::fault_settings{.death = "shard_writer@3:save"});
  const std::array writers{it.writer(0), it.writer(1)};
  const std::array ends{tests::ending(writers[0]), tests::ending(writers[1])};
  for (const int p : {0, 1})
    it.use(p, writers[std::size_t(p)]);
  it.save();
  const int dead = ends[0].has_come() ? 0 : 1;
  REQUIRE(ends[std::size_t(dead)].has_come());
  CHECK_FALSE(ends[std::size_t(1 - dead)].has_come());
  CHECK_THAT(ends[std::size_t(dead)].text(),
             ContainsSubstring("the death planted for shard_writer@3:save"));
  CHECK(it.heard<messages::saved>() == 0);
  CHECK_FALSE(runtime::latest_checkpoint(two.path()).folder);
  it.use(dead, {});
  CHECK(it.heard<messages::save_failed>() == 1);
  CHECK_FALSE(runtime::latest_checkpoint(two.path()).folder);
  it.use(dead, it.writer(dead));
  it.save(2);
  REQUIRE(it.heard<messages::saved>() == 1);
  CHECK(bytes_in(two.path()) == bytes_in(one.path()));
  CHECK(names_in(two.path()) == names_in(one.path()));
}

TEST_CASE("a process that no longer leads writes nothing and leaves others' files alone",
          "[actors]") {
  const tests::scratch_folder folder;
  const auto theirs = folder / ".iter_0000003.generation-9.attempt-1.another-host.partial";
  std::filesystem::create_directory(theirs);
  saving it(folder.path());
  it.prepared->node->superseded = [] { return std::string("another host leads this run"); };
  it.play_writers();
  for (const int attempt : {1, 2}) {  // the second removes leftovers of the first
    it.save(std::uint64_t(attempt));
    REQUIRE(it.heard<messages::save_failed>() == std::size_t(attempt));
    CHECK_THAT(it.supervisor.of<messages::save_failed>().back().why,
               ContainsSubstring("another host leads this run; this process will not save again"));
    CHECK(it.told.of<messages::write_shards>().empty());
    CHECK(names_in(folder.path()) == std::set<std::string>{theirs.filename().string()});
  }
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a process that lost the lead during a save does not publish it", "[actors]") {
  const int processes = GENERATE(1, 2);
  const bool is_known = GENERATE(true, false);
  CAPTURE(processes, is_known);
  const tests::scratch_folder folder;
  bool leads = true;
  saving it(folder.path(), processes);
  it.prepared->node->superseded = [&]() -> std::string {
    if (!leads && !is_known)
      throw runtime::io_error("the folder that decides does not answer");
    return leads ? "" : "another host leads this run";
  };
  it.before_write([&leads] { leads = false; });
  if (processes > 1)
    it.use_writers();
  it.save();
  CHECK_FALSE(leads);
  CHECK(it.heard<messages::saved>() == 0);
  REQUIRE(it.heard<messages::save_failed>() == 1);
  CHECK_THAT(it.supervisor.of<messages::save_failed>()[0].why,
             ContainsSubstring(is_known ? "will not save again" : "does not answer"));
  CHECK_FALSE(std::filesystem::exists(folder / runtime::iteration_folder(3)));
  CHECK_FALSE(runtime::latest_checkpoint(folder.path()).folder);
}

TEST_CASE("ONE-WRITER: a new checkpointer locks a removed folder again", "[actors]") {
  const bool saves_before = GENERATE(true, false);
  CAPTURE(saves_before);
  const tests::scratch_folder folder;
  const auto save = folder / "save";
  saving it(save, 1);
  it.prepared->node->save_lock = std::make_shared<runtime::save_lock>(save);
  it.prepared->node->save_lock->take();
  std::filesystem::remove_all(save);
  const auto require_locked = [&save] {
    CHECK_THROWS_WITH(runtime::directory_lock(save), ContainsSubstring("is saving there"));
  };
  if (saves_before) {
    it.save();
    require_locked();
  }
  it.system.kill(it.checkpointer,
                 messages::make_error(messages::ec::protocol_violated, "it dies in this test"));
  REQUIRE(it.end->has_come());
  it.spawn_checkpointer();
  if (saves_before)
    require_locked();
  it.save(2);
  CHECK(it.heard<messages::saved>() == (saves_before ? 2 : 1));
  require_locked();
}
