"""Federation: exchanges and queues of this broker that receive from upstream brokers, as policies say."""
