#include "runtime/transport/ucx/peer.hpp"

#include <cstring>
#include <utility>

namespace troupe::runtime::ucx {

namespace {
constexpr unsigned message_id = 0;
}

struct peer::operation {
  peer* of;
  operations::iterator self;
  std::vector<std::byte> header;
  std::shared_ptr<const void> keep;
  std::function<void(bool)> done;
};

peer::peer(const context& of, peer_number number, wire_owner& owner, bool announces)
    : number_(number), owner_(owner), announces_(announces), worker_(make_worker(of)) {
  ucp_am_handler_param_t params = {};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                      | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = message_id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = &peer::message_came;
  params.arg = this;
  require(ucp_worker_set_am_recv_handler(worker_.get(), &params), "take messages");
}

peer::~peer() {
  break_off("it was closed");
  close();
  worker_.reset();
  for (auto& x : under_way_)
    if (x.done)
      x.done(false);
  for (auto& x : announced_)
    if (x.to.done)
      x.to.done(false);
}

void peer::call(const std::string& address) {
  try {
    const auto to = address_of(address);
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr = {reinterpret_cast<const sockaddr*>(&to.at), to.size};
    connect(params);
  } catch (const std::runtime_error& failure) {
    break_off(failure.what());
  }
}

void peer::answer(ucp_conn_request_h who) {
  try {
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = who;
    connect(params);
  } catch (const std::runtime_error& failure) {
    break_off(failure.what());
  }
}

void peer::connect(ucp_ep_params_t params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&peer::went_wrong, this};
  require(ucp_ep_create(worker_.get(), &params, &endpoint_), "connect");
}

// What is under way ends with an error, here and at once.
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
  if (!broken_.empty() || endpoint_ == nullptr) {
    if (what.done)
      what.done(false);
    return;
  }
  const auto x = add(std::move(what.header), std::move(what.keep), std::move(what.done));
  auto params = terms_of(x);
  params.cb.send = &peer::was_sent;
  if (announces_ && !what.bytes.empty()) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_RNDV;
  }
  begun(x,
        ucp_am_send_nbx(endpoint_,
                        message_id,
                        x->header.data(),
                        x->header.size(),
                        what.bytes.data(),
                        what.bytes.size(),
                        &params));
}

// A call that has ended at once does not call back.
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
  if (!broken_.empty())
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
        "it sent along what is to lie in the memory of a device: the other end is set to "
        "give UCX the host's memory alone");
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

void peer::receive(announced from) {
  const auto x = add({}, std::move(from.to.keep), std::move(from.to.done));
  auto params = terms_of(x);
  params.cb.recv_am = &peer::was_received;
  begun(x, ucp_am_recv_data_nbx(worker_.get(), from.descriptor, from.to.to, from.bytes, &params));
}

bool peer::progress() {
  bool busy = false;
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
    return ucx::arm(worker_);
  } catch (const std::runtime_error& failure) {
    break_off(failure.what());
    return false;
  }
}

}  // namespace troupe::runtime::ucx
