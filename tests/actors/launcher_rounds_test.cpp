// A launcher that loses a host: the run's arbiter decides which contender continues.

#include "runtime/process/arbiter.hpp"
#include "tests/actors/launched.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::launched;
using tests::soon;

namespace {

/// Place 0 on the first of several hosts, and other contenders for the run.
class contested {
 public:
  explicit contested(int hosts)
      : it_(tests::sleeps, hosts, false, true, [this](launched& by) { prepare(by); }) {
    it_.want();
    it_.stand(1);
  }

  void lose(int host) {
    (*it_.self)->send_exit(it_.nodes->all[std::size_t(host)], caf::exit_reason::kill);
  }
  /// True if place 0 moves to another host.
  bool moves() {
    if (!it_.told<messages::process_died>())
      return false;
    it_.want(2);
    it_.stand(2);
    return true;
  }
  bool hears_of_a_death(std::chrono::milliseconds patience) {
    bool out = false;
    (*it_.self)->receive([&](const messages::process_died&) { out = true; },
                         caf::after(patience) >> [] {});
    return out;
  }
  std::string superseded() {
    const std::lock_guard lock(mutex_);
    return superseded_;
  }
  std::uint32_t next_round() const { return runtime::find_rendezvous(it_.folder)->round; }
  runtime::arbiter arbiter() const { return {save_.path(), it_.folder.record().id}; }
  const std::filesystem::path& save() const { return save_.path(); }

  const runtime::contender other{"0123456789abcdef", "host 'other' leads this run"};
  runtime::contender me;
  std::atomic<bool> left_to_others = false;

 private:
  void prepare(launched& by) {
    runtime::write_order(by.folder, "5\nwords");
    runtime::write_description(by.folder, "{}");
    me = runtime::contender_of(by.folder.path());
    const runtime::arbiter decides(save_.path(), by.folder.record().id);
    decides.open(me);
    by.settings.other_hosts = {.save = save_.path(),
                               .who = me,
                               .round = 2,
                               .superseded =
                                   [this](const std::string& why) {
                                     const std::lock_guard lock(mutex_);
                                     superseded_ = why;
                                   },
                               .left_to_others = [this](bool now) { left_to_others = now; }};
  }

  tests::scratch_folder save_;
  std::mutex mutex_;
  std::string superseded_;
  launched it_;
};

}  // namespace

TEST_CASE("a launcher that wins the round moves the place and tells the others the next round",
          "[actors]") {
  contested it(3);
  it.lose(0);
  CHECK(it.moves());
  CHECK(it.arbiter().winner(2) == it.me);
  CHECK(it.next_round() == 3);
  CHECK_FALSE(it.arbiter().claim(2, it.other));
  CHECK(it.superseded().empty());
  it.lose(1);
  CHECK(soon([&] { return it.next_round() == 4; }));
}

TEST_CASE("a launcher that lost the round ends and moves nothing", "[actors]") {
  contested it(3);
  REQUIRE(it.arbiter().claim(2, it.other));
  it.lose(0);
  CHECK(soon([&] { return !it.superseded().empty(); }));
  CHECK_THAT(
      it.superseded(),
      ContainsSubstring("the node at host-0:7000 is gone") && ContainsSubstring(it.other.text));
  CHECK_FALSE(it.hears_of_a_death(std::chrono::milliseconds(100)));
  CHECK(it.next_round() == 2);
}

TEST_CASE("a winner that resigned does not lead, and the launcher claims the next round",
          "[actors]") {
  contested it(2);
  REQUIRE(it.arbiter().claim(2, it.other));
  it.arbiter().resign(2, it.other);
  it.lose(0);
  CHECK(it.moves());
  CHECK(it.arbiter().winner(3) == it.me);
  CHECK(it.next_round() == 4);
}

TEST_CASE("a launcher without any reachable host leaves the run to others", "[actors]") {
  contested it(2);
  it.lose(0);
  it.lose(1);
  CHECK(soon([&] { return it.left_to_others.load(); }));
  // Independently of whether it won before the second loss.
  CHECK(soon([&] { return !it.arbiter().leader(); }));
  CHECK(it.arbiter().claim(it.arbiter().open_round(2), it.other));
}

TEST_CASE("a place does not move while the leader is unknown", "[actors]") {
  contested it(2);
  const auto hidden = it.save() / "hidden";
  std::filesystem::rename(it.arbiter().folder(), hidden);
  // An empty folder looks like an unmounted file system.
  const auto elsewhere = it.save().parent_path() / (it.save().filename().string() + ".mount");
  std::filesystem::rename(it.save(), elsewhere);
  it.lose(0);
  CHECK_FALSE(it.hears_of_a_death(std::chrono::milliseconds(200)));
  CHECK(it.superseded().empty());
  std::filesystem::rename(elsewhere / "hidden",
                          elsewhere / ".succession" / it.arbiter().folder().filename());
  std::filesystem::rename(elsewhere, it.save());
  CHECK(it.moves());
}

TEST_CASE("a launcher ends if its arbiter does not know its run", "[actors]") {
  contested it(2);
  const runtime::arbiter next(it.save(), "fedcba9876543210");
  next.open(it.other);
  next.forget_others();
  REQUIRE(it.arbiter().is_replaced());
  it.lose(0);
  CHECK(soon([&] { return !it.superseded().empty(); }));
  CHECK_THAT(it.superseded(), ContainsSubstring("was removed, probably by another run"));
}
