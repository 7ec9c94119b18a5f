// Reports of broken connections between processes.

#include "actors/host/neighbours.hpp"

#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using actors::broken_connection;
using actors::broken_connections;

TEST_CASE("breaks before the first listener are reported to it", "[actors]") {
  broken_connections all;
  std::vector<std::string> heard;
  all.tell({.to = {1, 1}, .why = "first"});
  all.tell({.to = {1, 2}, .why = "second"});
  all.tell_to([&](const broken_connection& x) { heard.push_back(x.why); });
  CHECK(heard == std::vector<std::string>{"second"});
  all.tell({.to = {1, 2}, .why = "third"});
  all.tell_to([&](const broken_connection& x) { heard.push_back("to another " + x.why); });
  CHECK(heard == std::vector<std::string>{"second", "third"});
}

TEST_CASE("a listener can name another actor to receive reports of broken connections",
          "[actors]") {
  broken_connections all;
  int heard = 0;
  all.tell_to([&](const broken_connection&) {
    all.tell_to([&](const broken_connection&) { heard += 10; });
    ++heard;
  });
  all.tell({.to = {1, 1}});
  all.tell({.to = {1, 1}});
  CHECK(heard == 11);
}

TEST_CASE("LINK-1: a control connection is made again once both ends know of the break",
          "[actors]") {
  const auto told = std::make_shared<broken_connections>();
  std::vector<std::string> heard, called;
  told->tell_to([&](const broken_connection& x) {
    heard.push_back(actors::name_of_control_connection(x.to) + (x.is_control ? "" : "?"));
  });
  actors::neighbours mine({0, 1}, nullptr, nullptr, told);
  mine.connect_control_by([&](const messages::process_address& x) { called.push_back(x.host); });
  mine.introduce({.who = {1, 2}, .host = "there"});
  mine.control_broke({1, 2}, "it was reset");
  CHECK(heard == std::vector<std::string>{"control:1.2"});
  CHECK(actors::control_connection_named(heard.front()) == messages::process_name{1, 2});
  CHECK_FALSE(actors::connection_named(heard.front()));
  CHECK_FALSE(mine.waits_for_control());
  mine.renew_connections(2);  // of another process
  CHECK(called.empty());
  mine.renew_connections(1);
  mine.renew_connections(1);
  CHECK(called == std::vector<std::string>{"there"});
  CHECK(mine.waits_for_control());
  SECTION("until it is there") {
    mine.control_is_settled({1, 2});
  }
  SECTION("or its process is gone") {
    mine.forget({1, 2}, "it was killed");
  }
  CHECK_FALSE(mine.waits_for_control());
}

TEST_CASE("the loss of a process is told, but not that of an earlier incarnation", "[actors]") {
  actors::neighbours mine({0, 1}, nullptr, nullptr);
  std::vector<std::string> heard;
  mine.when_forgotten([&](int process, const std::string& why) {
    heard.push_back(std::to_string(process) + " " + why);
  });
  mine.introduce({.who = {1, 2}});
  mine.forget({1, 1}, "killed");
  CHECK(heard.empty());
  mine.forget({1, 2}, "stopped");
  CHECK(heard == std::vector<std::string>{"1 stopped"});
  mine.when_forgotten({});
  mine.forget({1, 2}, "stopped");
  CHECK(heard.size() == 1);
}
