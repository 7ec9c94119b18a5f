#include "runtime/transport/ucx/peer.hpp"

#include "runtime/transport/ucx/silence.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::runtime::ucx {

namespace {
constexpr unsigned message_id = 0, greeting_id = 1;
constexpr std::byte greets{0}, answers_greeting{1};
}  // namespace

struct peer::operation {
  peer* of;
  operations::iterator self;
  std::vector<std::byte> header;
  std::shared_ptr<const void> keep;
  std::function<void(bool)> done;
};

peer::peer(const context& of,
           peer_number number,
           wire_owner& owner,
           bool announces,
           bool was_called,
           std::chrono::milliseconds silent_for)
    : number_(number),
      owner_(owner),
      announces_(announces),
      was_called_(was_called),
      silent_for_(silent_for) {
  const auto before = listening_sockets();
  worker_ = make_worker(of);
  worker_address_ = address_of(worker_);
  door_ = door(before, worker_address_);
  ucp_am_handler_param_t params = {};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                      | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.arg = this;
  params.id = message_id;
  params.cb = &peer::message_came;
  require(ucp_worker_set_am_recv_handler(worker_.get(), &params), "take messages");
  params.id = greeting_id;
  params.cb = &peer::greeting_came;
  require(ucp_worker_set_am_recv_handler(worker_.get(), &params), "take greetings");
}

peer::~peer() {
  break_off("it was closed");
  close();
  worker_.reset();
  for (auto& x : waiting_)
    if (x.done)
      x.done(false);
  for (auto& x : under_way_)
    if (x.done)
      x.done(false);
  for (auto& x : announced_)
    if (x.to.done)
      x.to.done(false);
}

void peer::connect(const handshake& talk) {
  introduced_ = true;
  outgoing_token_ = talk.outgoing_token();
  incoming_token_ = talk.incoming_token();
  address_of_other_ = talk.payload();
  if (silent_for_.count() > 0)
    greeted_until_ = clock::now() + silent_for_;
  try {
    door_.open();
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                        | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(talk.payload().data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {&peer::went_wrong, this};
    require(ucp_ep_create(worker_.get(), &params, &endpoint_), "connect");
  } catch (const std::runtime_error& failure) {
    break_off(failure.what());
  }
  greet(false);
  for (auto& x : std::exchange(waiting_, {}))
    begin(message_id, std::move(x));
}

void peer::greet(bool answers) {
  begin(greeting_id, {{answers ? answers_greeting : greets}, {}, nullptr, {}});
}

// Unfinished operations end with an error, at once and on this thread.
bool peer::close() {
  if (endpoint_ != nullptr) {
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    auto* const closing = ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &params);
    closing_ = UCS_PTR_IS_PTR(closing) ? closing : nullptr;
  }
  if (closing_ == nullptr)
    return true;
  if (ucp_request_check_status(closing_) == UCS_INPROGRESS)
    return false;
  ucp_request_free(std::exchange(closing_, nullptr));
  return true;
}

void peer::break_off(const std::string& why) {
  if (broken_.empty())
    broken_ = why;
}

void peer::went_wrong(void* self, ucp_ep_h, ucs_status_t said) {
  static_cast<peer*>(self)->break_off(ucs_status_string(said));
}

peer::operations::iterator peer::add(std::vector<std::byte> header,
                                     std::shared_ptr<const void> keep,
                                     std::function<void(bool)> done) {
  under_way_.push_front({this, {}, std::move(header), std::move(keep), std::move(done)});
  under_way_.front().self = under_way_.begin();
  return under_way_.begin();
}

ucp_request_param_t peer::terms_of(operations::iterator x) const {
  ucp_request_param_t out = {};
  out.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  out.user_data = &*x;
  return out;
}

void peer::send(outgoing what) {
  if (broken_.empty() && !introduced_)
    waiting_.push_back(std::move(what));
  else
    begin(message_id, std::move(what));
}

void peer::begin(unsigned id, outgoing what) {
  if (!broken_.empty() || endpoint_ == nullptr) {
    if (what.done)
      what.done(false);
    return;
  }
  std::vector<std::byte> header(outgoing_token_.size() + what.header.size());
  std::memcpy(header.data(), outgoing_token_.data(), outgoing_token_.size());
  std::copy(what.header.begin(), what.header.end(), header.begin() + outgoing_token_.size());
  const auto x = add(std::move(header), std::move(what.keep), std::move(what.done));
  auto params = terms_of(x);
  params.cb.send = &peer::was_sent;
  if (announces_ && !what.bytes.empty()) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_RNDV;
  }
  begun(x,
        ucp_am_send_nbx(endpoint_,
                        id,
                        x->header.data(),
                        x->header.size(),
                        what.bytes.data(),
                        what.bytes.size(),
                        &params));
}

// UCX does not call back for an operation that completes at once.
void peer::begun(operations::iterator x, ucs_status_ptr_t said) {
  if (said == nullptr)
    end(x, UCS_OK);
  else if (UCS_PTR_IS_ERR(said))
    end(x, UCS_PTR_STATUS(said));
}

void peer::end(operations::iterator x, ucs_status_t said) {
  const auto done = std::move(x->done);
  const auto keep = std::move(x->keep);
  under_way_.erase(x);
  if (said != UCS_OK)
    break_off(ucs_status_string(said));
  if (done)
    done(said == UCS_OK);
}

void peer::was_sent(void* request, ucs_status_t said, void* what) {
  ucp_request_free(request);
  auto* const x = static_cast<operation*>(what);
  x->of->end(x->self, said);
}

void peer::was_received(void* request, ucs_status_t said, std::size_t, void* what) {
  was_sent(request, said, what);
}

ucs_status_t peer::message_came(void* self,
                                const void* header,
                                std::size_t header_bytes,
                                void* data,
                                std::size_t bytes,
                                const ucp_am_recv_param_t* params) {
  return static_cast<peer*>(self)->on_message(
      {static_cast<const std::byte*>(header), header_bytes},
      data,
      bytes,
      (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

ucs_status_t peer::on_message(std::span<const std::byte> header,
                              void* data,
                              std::size_t bytes,
                              bool by_rendezvous) {
  if (!broken_.empty() || !is_of_peer(header))
    return UCS_OK;
  auto to = owner_.arrived(number_, header, bytes);
  if (to.to == nullptr)
    return UCS_OK;
  if (by_rendezvous) {
    announced_.push_back({data, bytes, std::move(to)});
    return UCS_INPROGRESS;
  }
  if (bytes > 0 && to.on_device) {
    break_off(
        "it sent bytes for device memory together with the header: the other end is set to give "
        "UCX only host memory");
    if (to.done)
      to.done(false);
    return UCS_OK;
  }
  if (bytes > 0)
    std::memcpy(to.to, data, bytes);
  if (to.done)
    to.done(true);
  return UCS_OK;
}

// A greeting shows that one direction works; an answer to a greeting shows the other.
ucs_status_t peer::on_greeting(std::span<const std::byte> header) {
  if (!broken_.empty() || !is_of_peer(header) || header.size() != 1)
    return UCS_OK;
  if (header[0] == answers_greeting)
    was_answered_ = true;
  else if (!std::exchange(was_greeted_, true))
    greet(true);
  if (!was_greeted_ || !was_answered_)
    return UCS_OK;
  greeted_until_.reset();
  try {
    door_.shut();
    end_when_silent(door_, address_of_other_, silent_for_);
  } catch (const std::system_error& failure) {
    break_off(failure.what());
  }
  return UCS_OK;
}

void peer::expire(clock::time_point now) {
  if (greeted_until_ && now >= *greeted_until_)
    break_off("no message came within " + std::to_string(silent_for_.count()) + " ms");
}

/// Checks and removes the token of a header.
bool peer::is_of_peer(std::span<const std::byte>& header) {
  const std::string_view all(reinterpret_cast<const char*>(header.data()), header.size());
  if (!equal_in_constant_time(all.substr(0, incoming_token_.size()),
                              {incoming_token_.data(), incoming_token_.size()})) {
    ++forged_;
    return false;
  }
  header = header.subspan(incoming_token_.size());
  return true;
}

ucs_status_t peer::greeting_came(void* self,
                                 const void* header,
                                 std::size_t header_bytes,
                                 void*,
                                 std::size_t,
                                 const ucp_am_recv_param_t*) {
  return static_cast<peer*>(self)->on_greeting(
      {static_cast<const std::byte*>(header), header_bytes});
}

void peer::receive(announced from) {
  const auto x = add({}, std::move(from.to.keep), std::move(from.to.done));
  auto params = terms_of(x);
  params.cb.recv_am = &peer::was_received;
  begun(x, ucp_am_recv_data_nbx(worker_.get(), from.descriptor, from.to.to, from.bytes, &params));
}

// Does not poll before the handshake is over: the first message may overtake its end.
bool peer::progress() {
  bool busy = false;
  if (!introduced_)
    return busy;
  const bool lives = broken_.empty();
  for (int i = 0; i < 64 && lives == broken_.empty() && ucp_worker_progress(worker_.get()) != 0;
       ++i)
    busy = true;
  while (broken_.empty() && !announced_.empty())
    receive(std::exchange(announced_.back(), {})), announced_.pop_back();
  return busy;
}

bool peer::arm() {
  try {
    return !introduced_ || ucx::arm(worker_);
  } catch (const std::runtime_error& failure) {
    break_off(failure.what());
    return false;
  }
}

}  // namespace troupe::runtime::ucx
