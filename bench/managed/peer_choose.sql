SELECT * FROM peer.choose('peer');
