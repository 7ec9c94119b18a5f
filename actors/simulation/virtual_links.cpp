#include "actors/simulation/virtual_links.hpp"

#include "actors/simulation/virtual_process.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/waiting.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors::simulation {
namespace {

constexpr auto both_planes = {data_plane::tickets, data_plane::groups};

const char* name_of(data_plane x) {
  return x == data_plane::tickets ? "tickets" : "groups";
}

}  // namespace

void virtual_wiring::add(virtual_links& x) {
  newest_[x.self().process] = &x;
}

virtual_links* virtual_wiring::at(int place) const {
  const auto found = newest_.find(place);
  return found == newest_.end() ? nullptr : found->second;
}

// Each redeeming process has its own connection; a group's connection serves both ends.
virtual_wiring::key virtual_wiring::key_of(data_plane plane,
                                           const virtual_links& from,
                                           const virtual_links& to) {
  const int a = from.number(), b = to.number();
  return plane == data_plane::tickets ? key(plane, a, b)
                                      : key(plane, std::min(a, b), std::max(a, b));
}

std::vector<virtual_wiring::key> virtual_wiring::of_pair(const virtual_links& a,
                                                         const virtual_links& b) const {
  return {key_of(data_plane::tickets, a, b),
          key_of(data_plane::tickets, b, a),
          key_of(data_plane::groups, a, b)};
}

std::shared_ptr<virtual_connection> virtual_wiring::between(data_plane plane,
                                                            virtual_links& from,
                                                            virtual_links& to) {
  const auto which = key_of(plane, from, to);
  auto& known = all_[which];
  if (!known || known->is_broken)
    known = std::make_shared<virtual_connection>();
  if (to.is_dead()) {
    known->is_broken = true;
    tell_later(network_.news_ns(), which, from, to, to.obituary());
  }
  return known;
}

bool virtual_wiring::break_one(const key& which) {
  const auto found = all_.find(which);
  return found != all_.end() && !std::exchange(found->second->is_broken, true);
}

void virtual_wiring::tell_later(std::uint64_t after_ns,
                                const key& which,
                                virtual_links& to,
                                virtual_links& other,
                                const std::string& why) {
  const auto plane = std::get<data_plane>(which);
  auto& world = network_.in();
  world.at(world.now_ns() + after_ns,
           fmt::format("process {} detects that its connection for {} with process {} broke",
                       to.self().process,
                       name_of(plane),
                       other.self().process),
           [&to, &other, plane, connection = all_.at(which), why] {
             to.hear(plane, other, connection, why);
           });
}

bool virtual_wiring::break_off(virtual_links& a,
                               virtual_links& b,
                               const broken_planes& how,
                               const std::string& why) {
  bool out = false;
  for (const auto& which : of_pair(a, b)) {
    const bool takes
        = std::get<data_plane>(which) == data_plane::tickets ? how.tickets : how.groups;
    if (!takes || !break_one(which))
      continue;
    out = true;
    tell_later(how.heard_ns[0], which, a, b, why);
    tell_later(how.heard_ns[1], which, b, a, why);
  }
  return out;
}

void virtual_wiring::close(virtual_links& by, virtual_links& other) {
  for (const auto& which : of_pair(by, other))
    if (break_one(which))
      tell_later(network_.news_ns(),
                 which,
                 other,
                 by,
                 fmt::format("process {} has closed the connection", by.self().process));
}

void virtual_wiring::lose(virtual_links& dead) {
  for (const auto& [place, other] : newest_) {
    if (other == &dead)
      continue;
    for (const auto& which : of_pair(dead, *other))
      if (break_one(which))
        tell_later(network_.news_ns(), which, *other, dead, dead.obituary());
  }
}

/// A rank's end in a group that spans processes.
struct virtual_links::group_end {
  runtime::cancel_token until, own;  ///< of the generation; of the rank's waits
  std::shared_ptr<void> released_with = {};
  std::vector<std::shared_ptr<virtual_connection>> over = {};
  std::string name = {}, lost = {};  ///< `lost`: reason

  bool is_cut() const {
    return std::any_of(over.begin(), over.end(), [](const auto& x) { return x->is_broken; });
  }
  void throw_if_lost() const {
    if (!lost.empty() && !until.is_cancelled())
      throw runtime::peer_lost("the group {} has lost a process: {}", name, lost);
  }
};

/// A rank that is cut off does not arrive, so no member's call completes.
class virtual_links::group_communicator final : public runtime::communicator {
 public:
  group_communicator(std::shared_ptr<runtime::local_group> group,
                     int rank,
                     std::shared_ptr<const group_end> at)
      : inner_(std::move(group), rank), at_(std::move(at)) {}

  runtime::axis_set along() const override { return inner_.along(); }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }

  void barrier() override {
    call([&] { inner_.barrier(); });
  }
  void all_reduce_sum(runtime::stream& stream,
                      runtime::dtype type,
                      std::span<const void* const> parts,
                      void* to,
                      std::int64_t n) override {
    call([&] { inner_.all_reduce_sum(stream, type, parts, to, n); });
  }
  void reduce_scatter_sum(runtime::stream& stream,
                          runtime::dtype type,
                          std::span<const void* const> parts,
                          void* to,
                          offsets ends) override {
    call([&] { inner_.reduce_scatter_sum(stream, type, parts, to, ends); });
  }
  void all_gather(runtime::stream& stream, const void* mine, void* to, offsets ends) override {
    call([&] { inner_.all_gather(stream, mine, to, ends); });
  }
  void all_to_all(runtime::stream& stream,
                  const void* from,
                  offsets from_ends,
                  void* to,
                  offsets to_ends) override {
    call([&] { inner_.all_to_all(stream, from, from_ends, to, to_ends); });
  }
  void broadcast(runtime::stream& stream, void* data, std::int64_t bytes, int root) override {
    call([&] { inner_.broadcast(stream, data, bytes, root); });
  }

 private:
  template <class Operation>
  void call(Operation what) {
    if (at_->is_cut()) {
      const runtime::flagged_wait told;
      runtime::running_fiber::current()->wait([this] { return at_->own.is_cancelled(); });
      at_->throw_if_lost();
      throw runtime::cancelled();
    }
    try {
      what();
    } catch (const runtime::cancelled&) {
      at_->throw_if_lost();
      throw;
    }
  }

  runtime::local_communicator inner_;
  std::shared_ptr<const group_end> at_;
};

virtual_links::virtual_links(virtual_network& network,
                             const virtual_process& of,
                             messages::process_name self)
    : virtual_links(network, of, self, std::make_shared<broken_connections>()) {}

virtual_links::virtual_links(virtual_network& network,
                             const virtual_process& of,
                             messages::process_name self,
                             std::shared_ptr<broken_connections> told)
    : neighbours(self, nullptr, nullptr, told),
      network_(network),
      process_(of),
      told_(std::move(told)) {}

virtual_links::~virtual_links() = default;

int virtual_links::number() const {
  return process_.number();
}

bool virtual_links::is_dead() const {
  return process_.is_dead();
}

std::string virtual_links::obituary() const {
  return fmt::format("process:{}: its connection is gone", self().process);
}

virtual_links::end& virtual_links::connected(data_plane plane, virtual_links& to) {
  runtime::ensure(knows(to.self().process),
                  "PROCESS-2: processes exchange tensors and sums with neighbours only");
  auto& out = ends_[{plane, to.number()}];
  if (!out.lost.empty())
    throw runtime::peer_lost("process {} cannot be reached: {}", to.self().process, out.lost);
  if (!out.over)
    out.over = network_.wiring().between(plane, *this, to);
  return out;
}

runtime::generation_id virtual_links::release(const virtual_connection& over,
                                              const std::string& why) {
  runtime::generation_id newest = {};
  for (auto* const x : redeeming_)
    if (x->over_.get() == &over && !x->is_lost()) {
      x->lost_ = why;
      newest = std::max(newest, x->generation_);
    }
  for (const auto& weak : groups_)
    if (const auto x = weak.lock();
        x && x->lost.empty() && std::any_of(x->over.begin(), x->over.end(), [&](auto& one) {
          return one.get() == &over;
        })) {
      x->lost = why;
      x->own.cancel();
    }
  return newest;
}

void virtual_links::hear(data_plane plane,
                         const virtual_links& other,
                         const std::shared_ptr<virtual_connection>& which,
                         const std::string& why) {
  auto& at = ends_[{plane, other.number()}];
  if (is_dead() || at.over != which || !at.lost.empty())
    return;
  const auto missed = release(*which, why);
  const auto generation = plane == data_plane::groups ? newest_ : missed;
  if (generation == runtime::generation_id{}) {
    at = {};  // no wait failed: the next user connects anew
    return;
  }
  at.lost = why;
  told_->tell({other.self(), generation, why});
}

// The same rule as in windows.hpp and wire_transport.hpp: no more groups of the ended generation
// can be joined, and the next redeem connects anew.
void virtual_links::renew_connections(int process) {
  static const std::string why = "it was closed; the next generation makes a new one";
  auto& wiring = network_.wiring();
  auto* const other = wiring.at(process);
  if (other == nullptr || other == this)
    return;
  for (const auto plane : both_planes) {
    auto& at = ends_[{plane, other->number()}];
    if (at.over)
      release(*at.over, why);
    at = {.lost = plane == data_plane::groups ? why : ""};
  }
  wiring.close(*this, *other);
}

void virtual_links::end_generation() {
  for (auto& [which, at] : ends_)
    if (which.first == data_plane::tickets && !at.lost.empty())
      at = {};
}

void virtual_links::begin(runtime::generation_id x) {
  if (x <= newest_)
    return;
  newest_ = x;
  std::erase_if(groups_, [](const auto& weak) { return weak.expired(); });
  for (auto& [which, at] : ends_)
    if (which.first == data_plane::groups && !at.lost.empty())
      at = {};
}

std::unique_ptr<runtime::communicator> virtual_links::join(runtime::window_group_description what,
                                                           const std::vector<int>& processes,
                                                           int rank,
                                                           const runtime::cancel_token& until) {
  begin(what.generation);
  const auto at = std::make_shared<group_end>();
  at->name = what.name;
  at->until = until;
  for (const int p : std::set<int>(processes.begin(), processes.end())) {
    auto* const other = network_.wiring().at(p);
    if (other == nullptr)
      throw runtime::io_error(
          "cannot join the group '{}': process {} is not known here", what.name, p);
    if (other != this)
      at->over.push_back(connected(data_plane::groups, *other).over);
  }
  at->released_with = until.on_cancel([own = at->own] { own.cancel(); });
  auto group
      = network_.meeting().at(value(what.generation), what.name, what.along, int(processes.size()));
  group->release_by(rank, at->own);
  if (!what.members.empty())
    group->introduce(what.name, rank, what.members[std::size_t(rank)]);
  groups_.push_back(at);
  return std::make_unique<group_communicator>(std::move(group), rank, at);
}

virtual_links::redeeming::redeeming(virtual_links& by,
                                    virtual_links& holder,
                                    runtime::generation_id generation)
    : by_(by), generation_(generation), over_(by.connected(data_plane::tickets, holder).over) {
  by_.redeeming_.insert(this);
}

virtual_links::redeeming::~redeeming() {
  by_.redeeming_.erase(this);
}

void virtual_links::redeeming::throw_if_lost() const {
  if (is_lost())
    throw runtime::peer_lost("cannot redeem a ticket: {}", lost_);
}

}  // namespace troupe::actors::simulation
