// The launcher: starts the processes of a job through their hosts' agents, tells each the job, and
// reports starts and deaths to the supervisor.
//
// It lives beside the supervisor and outlives it: a later supervisor that asks for a process gets
// the standing one. The launch machine (launch_machine.hpp) decides; the launcher carries its
// actions out.

#pragma once

#include "actors/host/supervisor_resources.hpp"
#include "actors/process/launch_machine.hpp"
#include "actors/process/launch_settings.hpp"
#include "actors/process/launch_sites.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/process/agent_messages.hpp"

#include <caf/actor_addr.hpp>
#include <caf/expected.hpp>
#include <caf/result.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

class launcher_state {
 public:
  static constexpr const char* name = "launcher";

  explicit launcher_state(messages::launcher_actor::pointer self) : self_(self) {}

  /// Blocks for milliseconds while the actor is published and the agent starts; no message is
  /// waiting yet. `standing`: the nodes of the settings, in their order. Throws io_error when the
  /// agent cannot be started.
  void start(launch_settings settings,
             messages::job_description told,
             std::shared_ptr<const supervisor_resources> context,
             std::vector<messages::standing_node_actor> standing);

  void receive(const messages::start_process& x);
  caf::result<messages::admitted> receive(const messages::join& x);
  void receive(const messages::present& x);
  messages::withdrawn receive(const messages::withdraw& x);
  void receive(const messages::agent_told& x);
  void receive(const messages::is_late& x);
  void receive(const messages::look_for_node& x);
  void receive(const messages::ledger_written& x);
  void receive(const messages::round_decided& x);
  /// Ends all processes. Kills processes that do not end within the failure detector's timeout.
  void receive(const messages::shut_down& x);

 private:
  /// A join that came before `begun_`.
  struct early_join {
    messages::join what;
    caf::strong_actor_ptr by;
    caf::typed_response_promise<messages::admitted> answer;
  };
  /// Facts about a process that only this actor knows.
  struct known {
    std::string host;  ///< host name
    messages::present here = {};
    caf::actor_addr joined_by = {};
  };

  void carry_out(const launch_actions& all);
  void carry_out(const launch_action::start& x);
  void carry_out(const launch_action::kill& x);
  void carry_out(const launch_action::end_agent& x);
  void carry_out(const launch_action::kill_agent& x);
  void carry_out(const launch_action::forget& x);
  void carry_out(const launch_action::abandon& x);
  void carry_out(const launch_action::avoid& x);
  void carry_out(const launch_action::relocate& x);
  void carry_out(const launch_action::tell_started& x);
  void carry_out(const launch_action::tell_died& x);
  void carry_out(const launch_action::refuse& x);
  void carry_out(const launch_action::offer_move& x);
  void carry_out(const launch_action::withdraw_offer& x);
  void carry_out(const launch_action::expect& x);
  void carry_out(const launch_action::quit& x);

  void take(int host, const runtime::process_started& x);
  void take(int host, const runtime::process_signalled& x);
  void take(int host, const runtime::process_died& x);
  void take(int host, const runtime::request_refused& x);
  void take(int, const auto&) {}  ///< other answers of an agent

  // launcher_succession.cpp:
  void take_up();
  void find_places(int processes);
  caf::expected<messages::admitted> admit(const messages::join& x, const caf::strong_actor_ptr& by);
  void leave_rendezvous() const;
  void note_start(const messages::process_name& who);
  const messages::present* present_of(const messages::process_name& who) const;

  // launcher_copies.cpp:
  void follow_ledger();
  void copy_run();
  void copy_run_to(int host);
  void copy_ledger_to(int host);
  void has_copied(int host, std::uint64_t bytes, bool all);
  void send_ledger(int host, std::string lines);

  // launcher_rounds.cpp:
  void decide_round();
  void settle_undecided();
  void win_round(std::uint32_t won);
  void has_resigned(bool now);
  void is_superseded(const std::string& why);
  void obeys_another(const std::string& why);
  using question_to_arbiter
      = std::function<messages::round_decided(const runtime::arbiter&, messages::round_decided)>;
  void ask_arbiter(messages::round_decided question, question_to_arbiter how);
  void forget_other_runs();
  void tell_arbiter(std::function<void(const runtime::arbiter&)> what);

  void lose(const caf::down_msg& x);
  void lose_host(int host, const std::string& why);
  void find_host(int host);
  void compare_cores(int host, int cores) const;
  std::chrono::milliseconds suspicion() const;

  messages::launcher_actor::pointer self_;
  launch_settings settings_;
  messages::job_description told_;
  std::shared_ptr<const supervisor_resources> context_;
  std::string run_;     ///< the run's id
  std::string secret_;  ///< secret of the data planes for processes without credentials; else empty
  std::uint16_t port_ = 0;  ///< port of this actor
  std::optional<launch_machine> machine_;
  std::map<int, messages::start_process> asked_;  ///< newest request of each place
  std::map<messages::process_name, known> known_;

  std::unique_ptr<launch_sites> sites_;
  bool begun_ = false;  ///< the state that an earlier launcher left is known
  std::vector<messages::start_process> early_orders_;
  std::vector<early_join> early_joins_;
  std::vector<std::uint32_t> places_;  ///< as in runtime::rendezvous_place
  std::uint32_t round_ = 0;
  /// Copy of the run for the hosts; empty: no host keeps one. Places, round and rendezvous are
  /// the current ones.
  std::optional<messages::keep_run> kept_run_;
  struct copy {
    std::uint64_t bytes = 0;     ///< bytes of the ledger that the host has
    bool is_on_its_way = false;  ///< a piece is being sent; one at a time
  };
  std::map<int, copy> copies_;  ///< by host
  /// Lost hosts with the reasons, and those that have returned, while the arbiter's decision is
  /// pending.
  std::vector<std::pair<int, std::string>> undecided_;
  std::vector<int> returned_;
  bool is_deciding_ = false;
  bool has_resigned_ = false;  ///< no host was reached; returning hosts are used after a won round
  std::uint64_t attempt_ = 0;  ///< messages::round_decided::attempt of the newest question
  std::string unknown_why_;    ///< the last logged reason
};

messages::launcher_actor::behavior_type launcher(
    messages::launcher_actor::stateful_pointer<launcher_state> self,
    launch_settings settings,
    messages::job_description told,
    std::shared_ptr<const supervisor_resources> context,
    std::vector<messages::standing_node_actor> standing);

}  // namespace troupe::actors
