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

TEST_CASE("a broken control connection is reported with the name of its other end", "[actors]") {
  const auto told = std::make_shared<broken_connections>();
  std::vector<std::string> heard;
  told->tell_to([&](const broken_connection& x) {
    heard.push_back(actors::name_of_control_connection(x.to) + (x.is_control ? "" : "?"));
  });
  actors::neighbours mine({0, 1}, nullptr, nullptr, told);
  mine.control_broke({1, 2}, "it was reset");
  CHECK(heard == std::vector<std::string>{"control:1.2"});
  CHECK(actors::control_connection_named(heard.front()) == messages::process_name{1, 2});
  CHECK_FALSE(actors::connection_named(heard.front()));
}

TEST_CASE("a process knows itself and its newest neighbours only", "[actors]") {
  actors::neighbours mine({0, 1}, nullptr, nullptr);
  mine.use_only({{.who = {1, 1}}, {.who = {2, 1}}});
  CHECK((mine.knows(0) && mine.knows(1) && mine.knows(2) && !mine.knows(3)));
  mine.use_only({{.who = {2, 1}}, {.who = {3, 1}}});
  CHECK((!mine.knows(1) && mine.knows(2) && mine.knows(3)));
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
