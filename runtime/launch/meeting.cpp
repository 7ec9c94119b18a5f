#include "runtime/launch/meeting.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(50);
constexpr auto between_reports = std::chrono::seconds(3);
constexpr std::size_t callers_besides = 64;

std::string text_of(const launch_member& x) {
  return fmt::format("rank {} (process {} on {})", x.rank, x.pid, x.host);
}

nlohmann::json request_of(const std::shared_ptr<http::exchange>& x, const char* what) {
  return parse_json(x->asked().body, what, launch_message_limits);
}

/// The first word that differs, for a message.
std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto word = [](auto at, auto end) {
    return at == end ? std::string("nothing more") : "'" + shortened(*at, 100) + "'";
  };
  return word(x, a.end()) + " instead of " + word(y, b.end());
}

}  // namespace

meeting::meeting(launch_member self,
                 const std::string& address,
                 std::uint16_t port,
                 const std::optional<credentials>& keys)
    : self_(std::move(self)), token_(keys ? keys->secret : no_credentials_token) {
  places_[self_.rank] = {.it = self_, .heard = true};
  http::settings how{.product = "troupe launch"};
  how.limits.connections = std::size_t(self_.world) * 2 + callers_besides;
  how.limits.body_bytes = launch_message_limits.bytes;
  if (keys)
    how.tls = http::server_certificate{.chain = keys->certificate, .key = keys->key};
  std::vector<http::server::route> routes;
  const auto add = [&](const char* path, auto take) {
    routes.push_back({http::method::post, path, [this, take](waiting x) {
                        if (!http::is_token(http::bearer_token(x->asked()), token_))
                          return x->answer(http::error_response(
                              401, "this process has other credentials than rank 0"));
                        const std::lock_guard lock(mutex_);
                        take(std::move(x));
                        changed_.notify_all();
                      }});
  };
  add(launch_path::join, [this](waiting x) { joins(std::move(x)); });
  add(launch_path::node, [this](waiting x) { has_node(x); });
  add(launch_path::end, [this](waiting x) { waits_for_end(std::move(x)); });
  add(launch_path::heard, [this](waiting x) { has_heard(x); });
  add(launch_path::ask_to_end, [this](waiting x) { asks_to_end(x); });
  server_ = std::make_unique<http::server>(
      std::vector<http::endpoint>{{.address = address, .port = port}}, std::move(routes), how);
}

meeting::~meeting() {
  const std::lock_guard lock(mutex_);
  for (auto& [rank, one] : places_)
    one.joins = one.ends = nullptr;
}

// MEETING-1.
std::string meeting::fault_of(const launch_member& x) const {
  if (x.world != self_.world)
    return fmt::format("{} counts {} ranks, but {} counts {}: start all by one launcher",
                       text_of(x),
                       x.world,
                       text_of(self_),
                       self_.world);
  if (x.rank >= x.world)
    return fmt::format("{} is not below the number of ranks, {}", text_of(x), x.world);
  if (const auto at = places_.find(x.rank);
      at != places_.end() && (at->second.it.pid != x.pid || at->second.it.host != x.host)
      && !is_lost(at->second.it))
    return fmt::format(
        "two processes have rank {}: process {} on {} and process {} on {}; give each its own rank",
        x.rank,
        at->second.it.pid,
        at->second.it.host,
        x.pid,
        x.host);
  if (x.build != self_.build)
    return fmt::format("{} is another build than {}: {}, not {}; install one build on all hosts",
                       text_of(x),
                       text_of(self_),
                       x.build,
                       self_.build);
  if (x.command != self_.command)
    return fmt::format("{} was started with another command line than {}: {}; give all the same",
                       text_of(x),
                       text_of(self_),
                       difference(x.command, self_.command));
  return "";
}

// MEETING-2. A process keeps its connection.
bool meeting::is_lost(const launch_member& x) const {
  const auto& newest = places_.at(x.rank).newest;
  return with_nodes_ && !end_ && newest && !newest->has_client();
}

bool meeting::is_first(const launch_member& x) const {
  if (x.local_rank)
    return *x.local_rank == 0;
  return std::none_of(places_.begin(), places_.end(), [&](const auto& one) {
    const auto& other = one.second.it;
    return other.rank < x.rank && other.host == x.host && other.machine == x.machine;
  });
}

void meeting::answer_with(launch_end end, waiting& x, const launch_member& who) const {
  end.first = is_first(who);
  x->answer({.status = launch_end_status, .body = json_text_replacing(json_of(end))});
  x.reset();
}

void meeting::answer_all() {
  for (auto& [rank, one] : places_)
    for (auto* const open : {&one.joins, &one.ends})
      if (*open)
        answer_with(*end_, *open, one.it);
}

void meeting::joins(waiting x) {
  const auto who = launch_member_in(x->asked().body);
  if (const auto why = fault_of(who); !why.empty()) {
    if (!with_nodes_ && !end_) {  // later it does not disturb the run
      fault_ = fault_.empty() ? why : fault_;
      end_ = {.exit_code = 2, .reason = refusal()};
      answer_all();
    }
    const launch_end alone{.exit_code = 2, .reason = "this launch runs already: " + why};
    return answer_with(with_nodes_ ? alone : *end_, x, who);
  }
  auto& place = places_[who.rank];
  place.it = who;
  place.heard = false;
  place.ends = nullptr;
  place.newest = x;
  place.joins = std::move(x);
  if (end_)
    answer_with(*end_, place.joins, who);
  else if (with_nodes_)  // it asks again
    answer_join(std::exchange(place.joins, nullptr), place);
}

void meeting::answer_join(const waiting& x, const place& of) const {
  x->answer({.body = json_text_replacing(json_of(
                 launch_begin{.starts_node = *with_nodes_ && is_first(of.it), .node = of.node}))});
}

void meeting::has_node(const waiting& x) {
  const auto told = request_of(x, launch_path::node);
  const auto at = places_.find(int(count_member(told, "rank", launch_path::node)));
  if (at == places_.end())
    throw input_error("this rank has not joined");
  at->second.newest = x;
  at->second.node = shortened(string_member(told, "node", launch_path::node), 300);
  if (const auto why = string_member(told, "failure", launch_path::node);
      !why.empty() && fault_.empty())
    fault_ = fmt::format("{} cannot start its node: {}", text_of(at->second.it), why);
  x->answer({.body = "{}"});
}

void meeting::waits_for_end(waiting x) {
  const auto told = request_of(x, launch_path::end);
  const auto at = places_.find(int(count_member(told, "rank", launch_path::end)));
  if (at == places_.end())
    throw input_error("this rank has not joined");
  at->second.newest = x;
  at->second.ends = std::move(x);
  if (end_)
    answer_with(*end_, at->second.ends, at->second.it);
}

void meeting::has_heard(const waiting& x) {
  const auto told = request_of(x, launch_path::heard);
  const auto at = places_.find(int(count_member(told, "rank", launch_path::heard)));
  if (end_ && at != places_.end())
    at->second.heard = true;
  x->answer({.body = "{}"});
}

void meeting::asks_to_end(const waiting& x) {
  const auto told = request_of(x, launch_path::ask_to_end);
  const auto why = shortened(string_member(told, "why", launch_path::ask_to_end), 100);
  x->answer({.body = "{}"});
  if (!asked_.empty())
    return;
  asked_ = why;
  if (take_request_)
    take_request_(asked_);
}

void meeting::give_requests_to(std::function<void(const std::string& why)> take) {
  const std::lock_guard lock(mutex_);
  take_request_ = std::move(take);
  if (take_request_ && !asked_.empty())
    take_request_(asked_);
}

std::string meeting::refusal() const {
  return fmt::format("the launch of {} ranks is refused: {}", self_.world, fault_);
}

std::string meeting::missing() const {
  constexpr std::size_t shown = 8;
  std::string out;
  std::size_t count = 0;
  for (int rank = 0; rank < self_.world; ++rank)
    if (!places_.contains(rank) && ++count <= shown)
      out += (out.empty() ? "" : ", ") + std::to_string(rank);
  return fmt::format("{} {}{}",
                     count == 1 ? "rank" : "ranks",
                     out,
                     count > shown ? fmt::format(" and {} more", count - shown) : "");
}

void meeting::wait(std::chrono::milliseconds at_most,
                   const std::function<bool()>& stop,
                   const std::function<bool()>& holds,
                   const std::function<std::string()>& what,
                   const std::function<std::string()>& late) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  auto report = std::chrono::steady_clock::now() + between_reports;
  std::unique_lock lock(mutex_);
  while (fault_.empty() && !holds()) {
    if (stop() || !asked_.empty())
      throw cancelled();
    const auto now = std::chrono::steady_clock::now();
    if (now > until) {
      fault_ = late();
    } else {
      if (now > report) {
        log_info(" rank {} waits for {}", self_.rank, what());
        report = now + between_reports;
      }
      changed_.wait_for(lock, between_looks);
    }
  }
  if (!fault_.empty())
    throw input_error("{}", refusal());
}

void meeting::gather(std::chrono::milliseconds at_most, const std::function<bool()>& stop) {
  wait(
      at_most,
      stop,
      [this] { return int(places_.size()) == self_.world; },
      [this] { return fmt::format("{} at port {} of {}", missing(), port(), self_.host); },
      [&] {
        return fmt::format(
            "{} did not come within {} s; see that the launcher has started {} and that it reaches "
            "this host",
            missing(),
            at_most.count() / 1000,
            int(places_.size()) + 1 == self_.world ? "it" : "them");
      });
}

std::vector<launch_host> meeting::hosts() const {
  const std::lock_guard lock(mutex_);
  std::vector<launch_host> out;
  std::vector<const launch_member*> firsts;
  for (const auto& [rank, one] : places_)
    if (is_first(one.it)) {
      firsts.push_back(&one.it);
      out.push_back({.name = one.it.host,
                     .devices = one.it.devices,
                     .cores = one.it.cores,
                     .domain = one.it.domain});
    }
  for (const auto& [rank, one] : places_) {  // a rank is on the last host that fits before it
    std::size_t its = 0;
    for (std::size_t h = 0; h < firsts.size() && firsts[h]->rank <= rank; ++h)
      if (firsts[h]->host == one.it.host && firsts[h]->machine == one.it.machine)
        its = h;
    ++out[its].ranks;
  }
  return out;
}

void meeting::begin(bool with_nodes) {
  const std::lock_guard lock(mutex_);
  with_nodes_ = with_nodes;
  for (auto& [rank, one] : places_)
    if (const auto open = std::exchange(one.joins, nullptr))
      answer_join(open, one);
}

std::vector<std::string> meeting::nodes(std::chrono::milliseconds at_most,
                                        const std::function<bool()>& stop) {
  begin(true);
  const auto late = [this] {
    return std::find_if(places_.begin(), places_.end(), [this](const auto& one) {
      const auto& x = one.second;
      return x.it.rank != self_.rank && is_first(x.it) && x.node.empty();
    });
  };
  wait(
      at_most,
      stop,
      [&] { return late() == places_.end(); },
      [&] { return "the node of " + text_of(late()->second.it); },
      [&] {
        return fmt::format("{} has not started its node within {} s",
                           text_of(late()->second.it),
                           at_most.count() / 1000);
      });
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [rank, one] : places_)
    if (is_first(one.it))
      out.push_back(one.node);
  return out;
}

void meeting::end(int exit_code, const std::string& reason, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!end_)
    end_ = {.exit_code = exit_code, .reason = reason};
  answer_all();
  changed_.wait_for(lock, patience, [this] {
    return int(places_.size()) == self_.world
           && std::all_of(
               places_.begin(), places_.end(), [](const auto& one) { return one.second.heard; });
  });
}

}  // namespace troupe::runtime
